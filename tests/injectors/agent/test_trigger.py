from __future__ import annotations

from typing import Any

import pytest

from injectors.agent.trigger import Armed, Point, check


def armed(name: str = "process.kill", **when: Any) -> Armed:
    return Armed({"id": "f1", "name": name, "where": {"rank": 0}, "when": when})


def phase(step: int, name: str) -> Point:
    return Point("phase", step, name)


def call(step: int, op: str = "all_reduce", phase: str = "bucket", groups: tuple[str, ...] = ("0",)) -> Point:
    return Point("collective", step, phase, op=op, groups=groups)


def test_a_step_alone_means_the_first_point_of_that_step() -> None:
    fault = armed(step=3)
    assert not fault.at(phase(2, "data"))
    assert fault.at(phase(3, "data"))


def test_a_phase_is_met_at_its_entry_in_that_step_only() -> None:
    fault = armed(step=3, phase="backward")
    assert not fault.at(phase(3, "forward"))
    assert not fault.at(phase(2, "backward"))
    assert fault.at(phase(3, "backward"))


def test_it_is_due_once() -> None:
    fault = armed(phase="forward")
    assert fault.at(phase(0, "forward"))
    assert not fault.at(phase(1, "forward"))


def test_occurrence_counts_the_points_that_fit() -> None:
    fault = armed(phase="forward", occurrence=3)
    assert [fault.at(phase(step, "forward")) for step in range(4)] == [False, False, True, False]


def test_a_fault_that_was_not_meant_for_this_process_stays_armed() -> None:
    fault = armed(phase="forward", occurrence=2)
    fault.at(phase(0, "forward"))
    assert fault.at(phase(1, "forward"))
    fault.rewind()
    assert fault.at(phase(2, "forward"))


def test_nth_counts_within_the_step_what_fits_operation_and_group() -> None:
    fault = armed("collective.hang", step=1, collective={"nth": 2, "op": "all_reduce", "group": "dp"})
    points = [
        call(1, "broadcast", groups=("3", "dp")),
        call(1, groups=("0", "default_pg")),
        call(1, groups=("3", "dp")),
        call(1, groups=("3", "dp")),
    ]
    assert [fault.at(point) for point in points] == [False, False, False, True]


def test_a_step_that_is_replayed_counts_anew() -> None:
    fault = armed("collective.hang", step=1, collective={"nth": 2})
    assert not fault.at(call(1))
    fault.begin_step()
    assert not fault.at(call(1))
    assert fault.at(call(1))


def test_a_collective_fault_waits_for_a_collective() -> None:
    fault = armed("collective.hang", step=1, phase="backward")
    assert not fault.at(phase(1, "backward"))
    assert not fault.at(call(1, phase="forward"))
    assert fault.at(call(1, phase="bucket"))


def test_another_fault_may_be_placed_at_a_collective_too() -> None:
    fault = armed(step=1, collective={"op": "barrier"})
    assert not fault.at(call(1))
    assert fault.at(call(1, "barrier", "idle"))


def test_an_event_is_met_only_as_an_event() -> None:
    fault = armed(event="recovery.transfer")
    assert not fault.at(phase(1, "data"))
    assert not fault.at(Point("event", 1, event="recovery.detect"))
    assert fault.at(Point("event", 1, event="recovery.transfer"))


def test_after_s_lets_earlier_points_pass() -> None:
    fault = armed(phase="forward", after_s=1.0)
    assert not fault.at(Point("phase", 0, "forward", elapsed_s=0.9))
    assert fault.at(Point("phase", 1, "forward", elapsed_s=1.1))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("numeric.bitflip", "optimizer"), ("process.exception", "forward"), ("process.kill", None)],
)
def test_where_a_step_alone_leaves_the_phase_to_the_fault(name: str, expected: str | None) -> None:
    assert armed(name, step=1).phase == expected
    assert armed(name, step=1, phase="data").phase == "data"


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ({}, "some of step, phase"),
        ({"stp": 1}, "unknown ['stp']"),
        ({"phase": "forwards"}, "phase 'forwards' is not known"),
        ({"step": -1}, "step -1 must be a whole number from 0 on"),
        ({"step": True}, "step True"),
        ({"occurrence": 0}, "occurrence 0 must be a whole number from 1 on"),
        ({"collective": {"op": "allreduce"}}, "op 'allreduce' is not known"),
        ({"collective": {"nth": 0}}, "nth 0 must be a whole number from 1 on"),
        ({"collective": {"number": 1}}, "unknown ['number']"),
        ({"collective": {}, "event": "x"}, "exclude each other"),
    ],
)
def test_a_trigger_that_makes_no_sense_is_refused(when: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        check(when)
    assert message in str(error.value)


def test_a_complete_trigger_is_accepted() -> None:
    check({"step": 3, "phase": "backward", "collective": {"nth": 2, "op": "all_reduce", "group": "dp"}})
