"""What a comparison calls slower, faster, worse, and what it leaves open."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.compare.compare import ALL, Change, Comparison, Limits, compare
from chaos.compare.samples import TIMED, base_names, samples
from chaos.report.model import Report
from tests.chaos.compare.recorded import recorded, repeats


def changes(found: Comparison, scenario: str = ALL) -> dict[str, Change]:
    return {one.timed: one.change for one in found.times if one.scenario == scenario}


@pytest.mark.slow
def test_ten_repeats_of_the_same_are_not_flagged() -> None:
    for seed in range(10):
        found = compare([repeats(seed)], [repeats(1000 + seed)])
        assert not found.regressed, seed
        assert found.tells
        assert set(changes(found).values()) == {Change.SAME}, seed


def test_a_transfer_twice_as_slow_is_flagged_and_nothing_that_it_does_not_touch() -> None:
    found = compare([repeats(1)], [repeats(2, slower="transfer")])
    assert found.regressed
    assert changes(found)["transfer"] == Change.SLOWER
    (transfer,) = [one for one in found.times if (one.scenario, one.timed) == (ALL, "transfer")]
    assert transfer.count == (20, 20)
    assert transfer.ratio == pytest.approx(2.0, rel=0.25)
    assert transfer.test.superiority > 0.9
    assert {one.timed for one in found.slower} == {"transfer"}
    # The other way round it is faster, which is no regression.
    back = compare([repeats(2, slower="transfer")], [repeats(1)])
    assert not back.regressed
    assert changes(back)["transfer"] == Change.FASTER


@pytest.mark.parametrize("phase", ["detect", "regroup", "transfer", "resume"])
def test_each_phase_has_its_own_line(phase: str) -> None:
    found = compare([repeats(3)], [repeats(4, slower=phase, factor=3.0)])
    slower = {one.timed for one in found.slower}
    assert phase in slower
    assert slower <= {phase, "total", "measured"}


def test_a_clear_difference_below_the_threshold_is_no_slowdown() -> None:
    before, after = [repeats(5, each=10)], [repeats(6, slower="transfer", factor=1.3, each=10)]
    strict = compare(before, after, Limits(slower_than=1.1))
    assert changes(strict)["transfer"] == Change.SLOWER
    assert not compare(before, after).regressed


def test_what_is_too_short_to_matter_does_not_count() -> None:
    before, after = [repeats(7)], [repeats(8, slower="transfer", factor=2.0)]
    assert changes(compare(before, after, Limits(floor_s=0.2)))["transfer"] == Change.SAME


def test_single_runs_of_many_scenarios_are_enough_together() -> None:
    """One repeat of twelve scenarios: each alone says nothing."""

    def single(factor: float) -> Report:
        one = recorded()["scenarios"][0]
        chosen = one["recoveries"][:12] if factor == 1.0 else one["recoveries"][12:24]
        scenarios = [
            {
                **one,
                "name": f"s{number}x",
                "recoveries": [{**recovery, "transfer_s": 0.05 * factor + number / 1e4}],
            }
            for number, recovery in enumerate(chosen)
        ]
        return Report.model_validate({**recorded(), "scenarios": scenarios})

    found = compare([single(1.0)], [single(2.0)])
    assert changes(found)["transfer"] == Change.SLOWER
    assert changes(found, "s3x")["transfer"] == Change.UNKNOWN


def test_two_repeats_are_too_few() -> None:
    found = compare([repeats(9, count=2)], [repeats(10, count=2, slower="transfer", factor=5.0)])
    assert not found.regressed
    assert not found.tells
    assert set(changes(found).values()) == {Change.UNKNOWN}


def test_no_scenario_in_common_is_no_comparison() -> None:
    other = [{**one, "name": f"other_{one['name']}"} for one in recorded()["scenarios"]]
    found = compare([repeats(1)], [Report.model_validate({**recorded(), "scenarios": other})])
    assert (found.verdicts, found.times, found.tells, found.regressed) == ((), (), False, False)
    assert [note.split(":")[0] for note in found.notes] == [
        "only before, not compared",
        "only after, not compared",
    ]


def with_verdicts(*ended: tuple[str, bool]) -> Report:
    one = recorded()["scenarios"][1]
    scenarios: list[dict[str, Any]] = [
        {**one, "name": f"s.{number}", "recoveries": [], "verdict": verdict, "as_expected": as_expected}
        for number, (verdict, as_expected) in enumerate(ended, start=1)
    ]
    return Report.model_validate({**recorded(), "scenarios": scenarios})


GOOD, BAD = ("PASS", True), ("VIOLATED", False)


@pytest.mark.parametrize(
    ("before", "after", "worse"),
    [
        ([GOOD], [GOOD], False),
        ([GOOD], [BAD], True),
        ([BAD], [BAD], False),
        ([BAD], [GOOD], False),
        ([GOOD] * 10, [GOOD] * 9 + [BAD], True),
        # It went wrong before, too: only clearly more often is worse.
        ([GOOD] * 9 + [BAD], [GOOD] * 8 + [BAD] * 2, False),
        ([GOOD] * 9 + [BAD], [BAD] * 10, True),
        # A control that must be violated, and still is.
        ([("VIOLATED", True)], [("VIOLATED", True)], False),
        ([("VIOLATED", True)], [("PASS", False)], True),
    ],
)
def test_verdicts(before: list[tuple[str, bool]], after: list[tuple[str, bool]], worse: bool) -> None:
    (found,) = compare([with_verdicts(*before)], [with_verdicts(*after)]).verdicts
    assert found.worse is worse
    assert found.scenario == "s"


def test_runs_are_counted_in_words() -> None:
    (found,) = compare([with_verdicts(GOOD)], [with_verdicts(GOOD, GOOD, BAD)]).verdicts
    assert (found.before, found.after) == ("PASS", "2 PASS, 1 VIOLATED (unexpected)")


def test_several_reports_count_as_repeats() -> None:
    one, two = repeats(1, count=3), repeats(2, count=3)
    found = samples([one, two])
    assert {timed for _, timed in found.times} == set(TIMED)
    assert len(found.of("two_hundred_kills", "transfer")) == 6
    assert found.of("nothing_like_it", "transfer") == ()


def test_a_number_is_taken_off_only_where_it_is_a_repeat() -> None:
    assert base_names(["a.1", "a.2", "a.3"]) == {"a.1": "a", "a.2": "a", "a.3": "a"}
    assert base_names(["a", "a.1"]) == {"a": "a", "a.1": "a.1"}
    assert base_names(["v.2", "v.3"]) == {"v.2": "v.2", "v.3": "v.3"}


def test_a_busy_machine_is_thought_of_when_everything_is_slower() -> None:
    busy = repeats(2)
    for scenario in busy.scenarios:
        scenario.step_s = (scenario.step_s or 0.0) * 3
        for recovery in scenario.recoveries:
            for name in ("detect_s", "regroup_s", "transfer_s", "resume_s", "total_s", "measured_s"):
                setattr(recovery, name, getattr(recovery, name) * 3)
    found = compare([repeats(1)], [busy])
    assert found.regressed
    assert found.notes[-1].startswith("nearly everything is slower")
    assert compare([repeats(1)], [repeats(2, slower="transfer")]).notes == ()


@pytest.mark.parametrize(("load", "said"), [(7.0, 1), (1.2, 0), (None, 0)])
def test_another_load_is_said(load: float | None, said: int) -> None:
    def under(load: float | None) -> Report:
        environment = {**recorded()["environment"], "cpus": 2, "load_before": load}
        return repeats(1, count=1).model_copy(update={"environment": environment})

    notes = compare([under(1.0)], [under(load)]).notes
    assert notes == ("the machine's load differs: 0.5 per processor before, 3.5 after",) * said


def test_another_machine_is_said() -> None:
    other = repeats(2).model_copy(
        update={"environment": {**recorded()["environment"], "cpu": "another"}, "seed": 99}
    )
    notes = compare([repeats(1)], [other]).notes
    assert notes[0] == "the seeds differ: faults may strike other ranks and steps"
    assert notes[1].startswith("cpu differs: ")
    assert notes[1].endswith("before, another after")
