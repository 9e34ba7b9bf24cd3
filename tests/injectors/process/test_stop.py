from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from injectors import signals
from injectors.fault import FaultError, UndoRecord, Victim
from injectors.process.stop import ProcessStop

Plan = Callable[..., dict[str, Any]]


def record_of(victim: Victim) -> UndoRecord:
    return ProcessStop().undo_record(victim)


def test_it_freezes_and_undo_lets_go_twice(sleeper: Victim) -> None:
    fault = ProcessStop(duration_s=1.0)
    record = fault.undo_record(sleeper)
    fired = fault.inject(sleeper, None)
    assert fired.data["state"] == "T"
    assert fault.verify(sleeper).data == {"state": "T"}
    # A runtime may have killed it since; what was seen stays true.
    assert fault.verify(sleeper, fired).proven
    assert not fault.verify_undone(record).proven
    for _ in range(2):
        assert fault.undo(record).proven
        assert fault.verify_undone(record).proven


def test_undo_after_the_victim_died(dead: Victim) -> None:
    fault = ProcessStop()
    assert fault.undo(record_of(dead)).proven
    assert fault.verify_undone(record_of(dead)).proven
    assert not fault.verify(dead).proven


def test_a_stranger_is_neither_stopped_nor_continued(stranger: Victim) -> None:
    fault = ProcessStop()
    assert not fault.inject(stranger, None).proven
    assert signals.state(stranger.pid) in ("S", "R")
    assert not fault.verify(stranger).proven


@pytest.mark.parametrize("value", [0, -1, 4000, "2s"])
def test_a_bad_duration_is_refused(value: object) -> None:
    with pytest.raises(FaultError, match="duration_s"):
        ProcessStop.from_params({"duration_s": value})


@pytest.mark.slow
def test_a_frozen_rank_goes_on_where_it_was(rig: Any, planned: Plan) -> None:
    frozen: list[str | None] = []

    def undo(reached: Any, rig: Any) -> None:
        frozen.append(signals.state(reached.pid))
        assert rig.fault("f1").undo(rig.outcome.records["f1"]).proven

    rig.on_fired = undo
    outcome = rig.run(
        "ddp.py", 4, faults=[planned("process.stop", 0, step=1, phase="optimizer")], digest=True
    )
    assert frozen == ["T"]
    assert outcome.codes == [0, 0], outcome.output
    # No state is touched: both ranks end with the same parameters.
    assert [event["digest"] for event in outcome.commits(0)] == [e["digest"] for e in outcome.commits(1)]
