import pytest

from chaos.report.coverage import Cell, cell_of, coverage, phase_of, role_of

KILL = Cell("process.kill", "backward", "another rank")


@pytest.mark.parametrize(
    ("when", "phase"),
    [
        ({"step": 3, "phase": "backward"}, "backward"),
        ({"event": "recovery.transfer"}, "transfer"),
        ({"event": "generation.open", "occurrence": 2}, "generation.open"),
        ({"step": 3, "collective": {"nth": 1}}, "collective"),
        ({"step": 3}, "step"),
        ({"after_s": 0.5}, "time"),
        ({"after_fault": "f1", "after_s": 0.5}, "time"),
    ],
)
def test_every_trigger_has_a_column(when: dict[str, object], phase: str) -> None:
    assert phase_of(when) == phase


@pytest.mark.parametrize(
    ("where", "role"),
    [
        ({"rank": 0}, "rank 0"),
        ({"rank": 3}, "another rank"),
        ({"node": 0}, "node 0"),
        ({"node": 2}, "another node"),
        ({"role": "transfer_source"}, "transfer_source"),
        ({}, "the job"),
    ],
)
def test_every_address_has_a_role(where: dict[str, object], role: str) -> None:
    assert role_of(where) == role


def test_a_cell_is_met_by_a_verified_fault_only() -> None:
    at_transfer = cell_of("process.stop", {"role": "transfer_source"}, {"event": "recovery.transfer"})
    found = coverage([(KILL, True), (KILL, True), (KILL, False), (at_transfer, False)])
    kills, stops = found.by_fault
    assert (kills.fault, stops.fault) == ("process.kill", "process.stop")
    assert dict(zip(found.columns, kills.counts, strict=True))["backward"] == 2
    assert set(stops.counts) == {0}
    assert found.missed == (at_transfer,)
    assert found.met == 1


def test_blanks_are_shown_for_every_phase_and_role_of_the_run() -> None:
    other = Cell("process.stop", "forward", "rank 0")
    found = coverage([(KILL, True), (other, True)])
    assert {"data", "forward", "commit", "detect", "resume", "collective", "time"} <= set(found.columns)
    assert [(row.fault, row.role) for row in found.by_role] == [
        ("process.kill", "another rank"),
        ("process.kill", "rank 0"),
        ("process.stop", "another rank"),
        ("process.stop", "rank 0"),
    ]
    assert found.size == 4 * len(found.columns)
    assert found.met == 2


def test_a_moment_of_its_own_becomes_a_column() -> None:
    found = coverage([(Cell("process.kill", "member.enter", "replacement"), True)])
    assert found.columns[-1] == "member.enter"
    assert found.by_fault[0].counts[-1] == 1


def test_what_the_run_did_not_plan_is_named() -> None:
    found = coverage([(KILL, True)], ["process.kill", "net.delay", "node.kill"])
    assert found.unused == ("net.delay", "node.kill")


def test_a_run_without_faults_has_an_empty_table() -> None:
    found = coverage([])
    assert (found.by_fault, found.size, found.met) == ((), 0, 0)
