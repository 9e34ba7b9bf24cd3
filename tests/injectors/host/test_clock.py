from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from injectors import lasting
from injectors.agent import act_clock
from injectors.fault import Evidence, FaultError, UndoRecord, Victim
from injectors.host.clock import HostClock

Plan = Callable[..., dict[str, Any]]
# What a loaded machine may put between two readings of one clock.
SLACK_S = 5.0


def said(output: str) -> list[dict[str, float]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


@pytest.mark.slow
def test_every_way_of_asking_is_wrong_until_its_time_is_up(rig: Any, planned: Plan) -> None:
    params = {"offset_s": 5000.0, "duration_s": 1.0}
    fault = planned("host.clock", 0, params, step=2, phase="forward")
    outcome = rig.run("clocks.py", 5, world=1, faults=[fault])
    assert outcome.codes == [0], outcome.output
    seen = outcome.verified["f1"]
    assert seen.proven, seen.what
    assert seen.data["ahead_s"] == pytest.approx(5000.0, abs=SLACK_S)
    undone = outcome.report("undone", "f1").evidence
    assert undone.data["reason"] == "elapsed"
    steps = said(outcome.output)
    assert max(abs(value) for key, value in steps[4].items() if key != "step") < SLACK_S


@pytest.mark.slow
def test_every_way_of_asking_sees_the_offset(rig: Any, planned: Plan) -> None:
    fault = planned("host.clock", 0, {"offset_s": -7000.0, "duration_s": 3.0}, step=0, phase="forward")
    outcome = rig.run("clocks.py", 3, world=1, faults=[fault])
    during = said(outcome.output)[1]
    assert during.pop("step") == 1
    assert during.pop("monotonic") == pytest.approx(0.0, abs=SLACK_S)
    assert all(value == pytest.approx(-7000.0, abs=SLACK_S) for value in during.values()), during


@pytest.mark.slow
def test_the_engines_word_ends_it_and_the_kernel_shows_that(rig: Any, planned: Plan) -> None:
    states: list[bool] = []

    def on_fired(reached: Any, rig: Any) -> None:
        fault, record = rig.fault("f1"), rig.outcome.records["f1"]
        states.append(lasting.holds(record.pid, record.start_ticks, "f1"))
        assert not fault.verify_undone(record).proven
        for _ in range(2):
            assert fault.undo(record, rig.server.send_undo).proven
            assert fault.verify_undone(record).proven

    rig.on_fired = on_fired
    fault = planned("host.clock", 0, {"offset_s": 900.0, "duration_s": 60.0}, step=0)
    # The job waits in its third step until its clock is right again.
    outcome = rig.run("clocks.py", 4, world=1, faults=[fault])
    assert states == [True]
    assert outcome.report("undone", "f1").evidence.data["reason"] == "undo"
    assert abs(said(outcome.output)[3]["now"]) < SLACK_S


@pytest.mark.slow
def test_a_tool_that_is_gone_ends_it(rig: Any, planned: Plan) -> None:
    rig.on_fired = lambda reached, rig: rig.server.stop()
    fault = planned("host.clock", 0, {"offset_s": 900.0, "duration_s": 60.0}, step=2)
    outcome = rig.run("clocks.py", 5, world=1, faults=[fault])
    assert outcome.codes == [0], outcome.output
    assert abs(said(outcome.output)[4]["time"]) < SLACK_S


@pytest.mark.slow
def test_a_drift_is_measured(rig: Any, planned: Plan) -> None:
    params = {"offset_s": 0.0, "drift": 0.5, "duration_s": 1.0}
    outcome = rig.run("clocks.py", 2, world=1, faults=[planned("host.clock", 0, params, step=0)])
    assert outcome.verified["f1"].proven, outcome.verified["f1"].what
    assert outcome.verified["f1"].data["drift"] == pytest.approx(0.5, rel=0.2)


def test_put_back_it_is_as_if_it_had_never_been() -> None:
    before = (time.time, datetime.datetime.__dict__["now"], datetime.datetime.__dict__["utcnow"])
    wrong = act_clock.WrongClock(1000.0, 0.0)
    wrong.start()
    try:
        assert time.time is not before[0]
        assert datetime.datetime.now().timestamp() - act_clock.REAL["time"]() == pytest.approx(
            1000.0, abs=1.0
        )
        assert isinstance(datetime.datetime.now(), datetime.datetime)
    finally:
        wrong.stop()
    assert (time.time, datetime.datetime.__dict__["now"], datetime.datetime.__dict__["utcnow"]) == before
    assert abs(datetime.datetime.now().timestamp() - time.time()) < 1.0


def test_a_clock_that_is_right_after_all_is_no_proof(sleeper: Victim) -> None:
    now = time.time()
    right = Evidence("", True, "agent", {"wall_s": now, "drift": 0.0, "engine_s": [now - 0.01, now + 0.01]})
    assert not HostClock(offset_s=60.0).verify(sleeper, right).proven
    wrong = Evidence("", True, "agent", {**right.data, "wall_s": now + 60.0})
    assert HostClock(offset_s=60.0).verify(sleeper, wrong).proven
    assert not HostClock(offset_s=60.0, drift=0.1).verify(sleeper, wrong).proven
    assert not HostClock(offset_s=60.0).verify(sleeper, None).proven


def test_a_clock_without_an_error_is_refused() -> None:
    with pytest.raises(FaultError, match="0 s off is right"):
        HostClock(offset_s=0.0)


def test_undo_after_the_victim_died(dead: Victim) -> None:
    fault = HostClock()
    record: UndoRecord = fault.undo_record(dead)
    for _ in range(2):
        assert fault.undo(record).proven
        assert fault.verify_undone(record).proven
