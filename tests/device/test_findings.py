from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.device.findings import (
    CHECKS,
    ON_OWN_MACHINE,
    Check,
    Finding,
    Look,
    differences,
    longest_pause_s,
    problems,
    step_ms,
    to_markdown,
)

CONTEND = CHECKS[0]
STUCK = next(check for check in CHECKS if check.fault == "gpu.stuck_kernel")
ASSERT = next(check for check in CHECKS if check.fault == "gpu.device_assert")
SEEN = {"what": "seen", "proven": True, "source": "kernel", "data": {}}
IDLE = Look(700000, False, 80 << 30, 0, ())


def proven(check: Check = CONTEND, **changes: Any) -> Finding:
    made = Finding(check, SEEN, SEEN, SEEN, SEEN, exit_code=0, seconds=20.0)
    for key, value in changes.items():
        setattr(made, key, value)
    return made


def test_no_check_that_runs_unasked_changes_the_machine_and_each_is_under_a_minute() -> None:
    assert [check.fault for check in CHECKS] == [
        "gpu.contend",
        "gpu.mem_hog",
        "gpu.stuck_kernel",
        "gpu.device_assert",
    ]
    assert [check.fault for check in ON_OWN_MACHINE] == ["gpu.clock_lock", "gpu.power_cap"]
    assert all(check.params.get("duration_s", 0.0) < 60.0 for check in (*CHECKS, *ON_OWN_MACHINE))


def test_what_was_proven_and_taken_back_has_no_problem() -> None:
    assert problems(proven(), has_undo=True) == []
    assert problems(proven(undone=None, undo_verified=None), has_undo=False) == []
    assert problems(proven(ASSERT, exit_code=1), has_undo=False) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"fired": None}, "it was never fired"),
        ({"verified": {**SEEN, "proven": False, "what": "no"}}, "not verified: no"),
        ({"undo_verified": None}, "it was never undo_verified"),
        ({"exit_code": -9}, "the victim was to go on, its exit code is -9"),
        ({"seconds": 61.0}, "it took 61 s, more than 60"),
    ],
)
def test_each_shortcoming_is_named(changes: dict[str, Any], expected: str) -> None:
    assert problems(proven(**changes), has_undo=True) == [expected]


def test_a_victim_that_survives_the_assertion_is_a_problem() -> None:
    assert problems(proven(ASSERT), has_undo=False) == ["the victim was to fail, its exit code is 0"]


@pytest.mark.parametrize(("commits", "count"), [([0.0, 1.0, 5.0, 6.0], 0), ([0.0, 1.0, 2.0], 1), ([], 1)])
def test_steps_must_not_go_on_while_the_stream_is_held(commits: list[float], count: int) -> None:
    assert len(problems(proven(STUCK, commits=commits), has_undo=True)) == count


def test_steps_are_timed_before_during_and_after() -> None:
    times = [0.0, 0.1, 0.2, 1.0, 1.3, 1.6, 2.0, 2.1]
    found = proven(commits=times, moments={"reached": 0.5, "verified": 0.9, "undone": 1.7})
    assert step_ms(found) == {"before": 100.0, "during": 300.0, "after": 100.0}
    assert longest_pause_s(found) == pytest.approx(0.8)
    assert step_ms(proven()) == {"before": None, "during": None, "after": None}


def test_an_idle_device_as_it_was_found_has_no_difference() -> None:
    assert differences(IDLE, replace(IDLE, free_bytes=IDLE.free_bytes - 1, utilization_percent=3)) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"power_limit_mw": 200000}, "power limit: 700000 mW before, 200000 mW now"),
        ({"locked": True}, "clock lock: False before, True now"),
        ({"processes": (7,)}, "processes on the device: 7"),
        ({"free_bytes": 1}, f"free memory: {80 << 30} bytes before, 1 now"),
    ],
)
def test_each_difference_is_named(change: dict[str, Any], expected: str) -> None:
    assert differences(IDLE, replace(IDLE, **change)) == [expected]


def test_the_record_says_what_was_not_run_and_what_was_a_stand_in() -> None:
    record: dict[str, Any] = {
        "command": "python -m tests.device.check_faults",
        "environment": {"commit": "0123456789abcdef", "uncommitted_changes": False, "torch": "2.13"},
        "device": {"name": "X", "driver": "1"},
        "stand_in": True,
        "checks": [
            {
                "fault": "gpu.contend",
                "problems": ["a | b"],
                "step_ms": {"before": 1.0, "during": 2.5, "after": None},
                "fired": SEEN,
                "verified": None,
            }
        ],
        "skipped": ["gpu.clock_lock"],
        "left": [],
    }
    text = to_markdown(record)
    assert "| `gpu.contend` | a \\| b | 1 ms / 2.5 ms / - | seen |" in text
    assert "Every device in this record is a stand-in." in text
    assert "At the end: idle, settings as found." in text
    assert "Not run, for they change settings of the machine: gpu.clock_lock." in text
    assert "stand-in" not in to_markdown({**record, "stand_in": False}).lower()
    assert "At the end: process 7." in to_markdown({**record, "left": ["process 7"]})
