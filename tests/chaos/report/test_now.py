"""What a run is doing, folded from the events that a right history has, whole and cut off anywhere."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.report.now import FaultNow, Mark, Now, State
from tests.chaos.histories import Events, Job


def kill(rank: int = 1) -> FaultNow:
    return FaultNow("f1", "process.kill", f"step 2, backward, rank {rank}", "crash")


def fold(events: Events, *faults: FaultNow, until: str = "", world: int = 0) -> Now:
    """The view after all events, or after the first one called `until`."""
    now = Now("it", steps=10, world=world, faults=faults)
    for event in events:
        now.feed(event)
        if event["event"] == until:
            return now
    assert not until, f"no {until} in the history"
    return now


def states(now: Now) -> list[State]:
    return [lane.state for _, lane in sorted(now.lanes.items())]


def strip(now: Now, rank: int) -> str:
    return now.lanes[rank].strip


def event(name: str, t: float, rank: int | None = None, **more: Any) -> dict[str, Any]:
    return {"event": name, "t": t, "source": "agent", **({} if rank is None else {"rank": rank}), **more}


def test_ranks_start_run_and_finish() -> None:
    job = Job(2).steps(3).finish()
    assert states(fold(job.events, until="job.start")) == [State.STARTING] * 2
    running = fold(job.events, until="job.end")
    assert states(running) == [State.RUNNING] * 2
    assert (running.step, running.generation, running.lanes[1].step) == (2, 1, 2)
    assert strip(running, 0) == "^|||"
    assert states(fold(job.events)) == [State.FINISHED] * 2


def test_planned_ranks_are_there_before_any_process() -> None:
    assert states(Now("it", world=3)) == [State.STARTING] * 3


def test_a_killed_rank_is_dead_and_the_others_recover_until_it_is_over() -> None:
    job = Job(3).steps(2).kill(1).finish()
    armed = fold(job.events, kill(), until="fault.armed")
    assert armed.fault is not None
    assert (armed.fault.stage, armed.recovering) == ("armed", None)

    struck = fold(job.events, kill(), until="fault.verified")
    assert struck.fault is not None
    assert (struck.fault.stage, struck.fault.ranks) == ("verified", (1,))
    assert states(struck) == [State.RECOVERING, State.DEAD, State.RECOVERING]
    assert struck.recovering is not None
    assert (struck.recovering.ranks, struck.recovering.kind) == ((1,), "crash")
    fired_t = next(e["t"] for e in job.events if e["event"] == "fault.fired")
    assert (struck.recovering.since_t, struck.recovering.phase) == (fired_t, "detect")

    assert fold(job.events, kill(), until="recovery.detect").recovering == struck.recovering.__class__(
        fired_t, 1, (1,), "crash", "fence"
    )
    assert strip(fold(job.events, kill(), until="fence"), 1) == "^||!x"
    sending = fold(job.events, kill(), until="state.send")
    assert sending.recovering is not None
    assert (sending.recovering.phase, sending.generation) == ("transfer", 2)
    assert states(sending) == [State.RECOVERING, State.STARTING, State.RECOVERING]

    over = fold(job.events, kill(), until="recovery.done")
    assert (states(over), over.recovering) == ([State.RUNNING] * 3, None)
    assert over.recovered is not None
    assert (over.recovered.ranks, over.recovered.total_s) == ((1,), pytest.approx(0.15))
    assert dict(over.recovered.phases)["regroup"] == 0.05
    assert strip(over, 1) == "^||!x^=|"
    assert strip(over, 0) == "^||<|"


def test_a_recovery_that_no_fault_explains_is_one_too() -> None:
    job = Job(2).steps(1).kill(1)
    events = [e for e in job.events if not e["event"].startswith("fault.")]
    now = fold(events, until="recovery.detect")
    assert now.recovering is not None
    assert (now.recovering.ranks, now.recovering.kind) == ((1,), "crash")


def test_a_frozen_rank_is_stopped_until_the_fault_is_undone() -> None:
    freeze = FaultNow("f1", "process.stop", expects="stopped", lasts=True)
    job = Job(2).steps(2)
    job.fault("process.stop", 0, undone=True)
    frozen = fold(job.events, freeze, until="fault.verified")
    assert states(frozen) == [State.STOPPED, State.RECOVERING]
    assert freeze.active
    thawed = fold(job.events, FaultNow("f1", "process.stop", expects="stopped", lasts=True))
    assert states(thawed) == [State.RECOVERING] * 2


def test_of_several_faults_the_one_that_acts_is_looked_at_then_the_next() -> None:
    lasting = FaultNow("f1", "net.delay", lasts=True)
    later = FaultNow("f2", "process.kill", expects="crash")
    now = Now("it", faults=(lasting, later))
    assert now.fault is lasting
    now.feed({"event": "fault.fired", "fault": "f1", "t": 1.0})
    now.feed({"event": "fault.armed", "fault": "f2", "t": 1.0})
    assert now.fault is lasting
    now.feed({"event": "fault.undone", "fault": "f1", "t": 2.0})
    assert now.fault is later
    now.feed({"event": "fault.failed", "fault": "f2", "t": 3.0})
    assert (now.fault, now.recovering) == (later, None)


class TestAJobThatReportsNoRecoveries:
    def begun(self) -> Now:
        now = Now("it", faults=(kill(),))
        for rank in (0, 1):
            now.feed(event("worker.start", 0.0, rank, pid=rank))
            now.feed(event("step.commit", 1.0, rank, step=0, pid=rank))
        now.feed(event("fault.fired", 2.0, 1, fault="f1", pid=1))
        now.feed(event("fault.verified", 2.1, 1, fault="f1", pid=1))
        return now

    def test_is_back_when_the_victims_place_goes_beyond_all_that_was_there(self) -> None:
        now = self.begun()
        for rank in (0, 1):
            now.feed(event("worker.start", 5.0, rank, pid=10 + rank))
            now.feed(event("step.commit", 6.0, rank, step=0, pid=10 + rank))
        assert states(now) == [State.RECOVERING] * 2
        now.feed(event("step.commit", 7.0, 0, step=1, pid=10))
        assert now.recovering is not None, "another rank says nothing of the victim's"
        now.feed(event("step.commit", 7.5, 1, step=1, pid=11))
        assert (now.recovering, states(now)) == (None, [State.RUNNING] * 2)
        assert now.recovered is not None
        assert (now.recovered.ranks, now.recovered.total_s) == ((1,), 5.5)
        assert strip(now, 1) == "^|!^+|"

    def test_what_happened_before_the_fault_and_is_told_after_it_is_no_recovery(self) -> None:
        now = self.begun()
        now.feed(event("step.commit", 1.9, 1, step=1, pid=1))
        assert (now.lanes[1].state, now.lanes[1].step) == (State.DEAD, 1)
        assert strip(now, 1) == "^||!"
        now.feed(event("step.commit", 6.0, 1, step=1, pid=11))
        assert now.recovering is not None

    def test_a_data_loaders_worker_is_not_a_new_process_of_its_rank(self) -> None:
        now = Now("it")
        now.feed(event("worker.start", 0.0, 0, pid=1))
        now.feed(event("step.commit", 1.0, 0, step=0, pid=1))
        now.feed(event("worker.start", 1.1, 0, pid=2))
        assert (now.lanes[0].state, now.lanes[0].pid) == (State.RUNNING, 1)

    def test_what_is_under_way_ends_with_the_target(self) -> None:
        now = self.begun()
        now.feed({"event": "target.exit", "t": 9.0})
        assert (now.recovering, now.recovered) == (None, None)


def test_the_end_of_a_process_that_was_replaced_ends_nothing() -> None:
    now = fold(Job(2).steps(1).events)
    now.feed(event("worker.promoted", 1.0, 1, pid=77, source="recovery"))
    now.feed(event("worker.exit", 1.1, 1, pid=101, signal=9, source="recovery"))
    assert now.lanes[1].state is State.STARTING


def test_a_fault_of_a_node_names_its_ranks() -> None:
    now = Now("it", faults=(FaultNow("f1", "node.kill", expects="crash"),))
    now.feed({"event": "fault.fired", "fault": "f1", "t": 1.0, "nodes": [1], "ranks": [2, 3], "rank": 2})
    assert now.fault is not None
    assert (now.fault.nodes, now.fault.ranks) == ((1,), (2, 3))
    assert [strip(now, rank) for rank in (2, 3)] == [Mark.FAULT] * 2


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"event": 5},
        {"event": "nothing.known", "rank": -1},
        {"event": "step.commit", "rank": 0, "step": "x"},
        {"event": "fault.fired"},
        {"event": "fault.never_heard_of", "fault": "f9", "rank": "a"},
        {"event": "job.start", "world": "four"},
        {"event": "recovery.done", "causes": "none", "total_s": "soon"},
        {"event": "generation.open"},
    ],
)
def test_an_event_that_is_not_understood_stops_nothing(odd: dict[str, Any]) -> None:
    now = fold(Job(2).steps(1).events, kill())
    now.feed(odd)
    assert states(now) == [State.RUNNING] * 2
