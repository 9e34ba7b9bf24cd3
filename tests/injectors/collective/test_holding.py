"""collective.hang and collective.delay: a rank that does not arrive, or arrives late."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from injectors import signals
from injectors.collective.delay import CollectiveDelay
from injectors.collective.hang import CollectiveHang
from injectors.fault import FaultError, Victim

Plan = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (CollectiveHang, {"mode": "gpu"}),
        (CollectiveHang, {"duration_s": -1}),
        (CollectiveDelay, {"duration_s": 0}),
        (CollectiveDelay, {"duration_s": None}),
    ],
)
def test_bad_parameters_are_refused(kind: Any, params: dict[str, Any]) -> None:
    with pytest.raises(FaultError, match=next(iter(params))):
        kind.from_params(params)


def test_undo_after_the_victim_died(dead: Victim) -> None:
    fault = CollectiveHang()
    record = fault.undo_record(dead)
    for _ in range(2):
        assert fault.undo(record).proven
    assert fault.verify_undone(record).proven


@pytest.mark.slow
def test_a_hang_is_seen_from_outside_and_ends_when_undone(rig: Any, planned: Plan, beside: Any) -> None:
    undone: list[Any] = []

    def undo_later(reached: Any, rig: Any) -> None:
        fault, record = rig.fault("f1"), rig.outcome.records["f1"]

        def undo() -> None:
            time.sleep(0.2)
            undone.append(fault.verify_undone(record))
            for _ in range(2):
                undone.append(fault.undo(record, rig.server.send_undo))
            undone.append(fault.verify_undone(record))

        rig.thread = beside(undo)

    rig.on_fired = undo_later
    fault = planned("collective.hang", 0, step=2, phase="backward")
    outcome = rig.run("ddp.py", 5, faults=[fault], digest=True)
    rig.thread.join(5)
    assert outcome.codes == [0, 0], outcome.output
    assert "blocked in recvfrom on the agent's line" in outcome.verified["f1"].what
    assert [evidence.proven for evidence in undone] == [False, True, True, True]
    ended = outcome.report("undone", "f1").evidence
    assert ended.data["reason"] == "undo"
    assert 0.1 < ended.data["held_s"] < 2.0
    assert [event["digest"] for event in outcome.commits(0)] == [e["digest"] for e in outcome.commits(1)]


@pytest.mark.slow
def test_a_hang_ends_when_the_tool_is_gone(rig: Any, planned: Plan, beside: Any) -> None:
    def vanish(reached: Any, rig: Any) -> None:
        rig.thread = beside(rig.server.stop)

    rig.on_fired = vanish
    outcome = rig.run("ddp.py", 5, faults=[planned("collective.hang", 1, step=1)])
    assert outcome.codes == [0, 0], outcome.output


@pytest.mark.slow
def test_a_hang_ends_when_the_time_is_up(rig: Any, planned: Plan) -> None:
    fault = planned("collective.hang", 0, {"duration_s": 0.2}, step=1, phase="backward")
    outcome = rig.run("ddp.py", 3, faults=[fault])
    assert outcome.codes == [0, 0]
    assert outcome.report("undone", "f1").evidence.data["reason"] == "elapsed"


@pytest.mark.slow
def test_a_rank_that_is_killed_while_it_hangs_leaves_nothing(rig: Any, planned: Plan) -> None:
    def kill(reached: Any, rig: Any) -> None:
        signals.send(reached.pid, reached.start_ticks, 9)
        assert signals.wait_gone(reached.pid, reached.start_ticks, 5.0)
        record = rig.outcome.records["f1"]
        assert rig.fault("f1").undo(record, rig.server.send_undo).proven
        assert rig.fault("f1").verify_undone(record).proven

    rig.on_fired = kill
    outcome = rig.run("ddp.py", 5, faults=[planned("collective.hang", 1, step=1, phase="backward")])
    assert outcome.codes[1] == -9


@pytest.mark.slow
def test_a_delay_is_as_long_as_it_says(rig: Any, planned: Plan) -> None:
    faults = [
        planned("collective.delay", 0, {"duration_s": 0.15}, step=1, collective={"op": "all_reduce"}),
        planned("collective.delay", 1, {"duration_s": 0.1}, step=2, phase="bucket"),
        planned("collective.delay", 1, {"duration_s": 0.1}, step=2, collective={"op": "barrier"}),
    ]
    outcome = rig.run("ddp.py", 4, faults=faults)
    assert outcome.codes == [0, 0]
    assert outcome.report("undone", "f1").evidence.data["held_s"] == pytest.approx(0.15, abs=0.1)
    assert outcome.report("undone", "f2").evidence.data["held_s"] == pytest.approx(0.1, abs=0.1)
    # Negative control: there is no barrier in this script.
    assert "f3" not in outcome.fired
    assert outcome.reached[0].collective == {"op": "all_reduce", "groups": ["0", "default_pg"]}
