"""The coordinator of several nodes, driven by hand: no process, no network, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import pytest

from recovery.core import messages as m
from recovery.core.config import Config
from recovery.core.coordinator import Phase
from recovery.core.fleet import FleetCoordinator
from recovery.core.nodes import Standing

A = TypeVar("A")


class Fleet:
    """A coordinator of three nodes; every node answers probes, unless it is in `mute` or cut from another."""

    def __init__(self, nodes: int = 3, world: int = 6, **limits: float | None) -> None:
        self.now = 0.0
        given = {"min_nodes": nodes // 2 + 1, "spares": 0, **limits}
        self.config = Config(world_size=world, nodes=nodes, **given)  # type: ignore[arg-type]
        self.fleet = FleetCoordinator(self.config)
        self.actions: list[m.Action] = self.fleet.begin(self.now)
        self.mute: set[int] = set()
        self.cut: set[frozenset[int]] = set()
        self.sessions = dict.fromkeys(range(nodes), 0)
        self.answering = True

    def tell(self, event: m.Event | m.NodeEvent, after_s: float = 0.0) -> list[m.Action]:
        self.now += after_s
        taken = self.fleet.handle(event, self.now)
        self.actions += taken
        for action in taken:
            if isinstance(action, m.Probe) and self.answering:
                self.answer(action)
        return taken

    def answer(self, probe: m.Probe) -> None:
        for one in probe.nodes:
            if one not in self.mute:
                peers = {p for p in probe.nodes if p != one and frozenset((one, p)) not in self.cut}
                self.tell(m.Reached(one, probe.number, frozenset(peers)))

    def of(self, kind: type[A]) -> list[A]:
        return [action for action in self.actions if isinstance(action, kind)]

    def join(self, *nodes: int) -> None:
        for index in nodes or self.sessions:
            self.sessions[index] += 1
            self.tell(m.NodeJoined(index, self.sessions[index]))

    def beat(self, *nodes: int) -> None:
        for index in nodes:
            self.tell(m.NodeBeat(index, self.sessions[index], 1))

    def pass_time(self, seconds: float, beating: Iterable[int] = ()) -> None:
        """Ticks whenever one is due, and beats of the nodes that are alive."""
        until = self.now + seconds
        while self.now < until and self.fleet.phase is not Phase.ENDED:
            self.now = min(until, self.now + 0.2)
            self.beat(*beating)
            if self.now >= self.fleet.due():
                self.tell(m.Tick())

    def ready(self, *ranks: int, version: int | None = None) -> None:
        for rank in ranks or range(len(self.fleet.slots)):
            slot = self.fleet.slots[rank]
            left = "collective_error" if slot.opened else None
            self.tell(m.Ready(slot.proc, version, f"v{version}", False, slot.opened, left))

    def run(self) -> Fleet:
        """To a first commit of everyone."""
        self.join()
        self.ready()
        for slot in self.fleet.slots:
            self.tell(m.Formed(slot.proc, self.fleet.generation))
        for slot in self.fleet.slots:
            self.tell(m.Committed(slot.proc, self.fleet.generation, 1))
        self.actions.clear()
        return self

    def places(self) -> list[int | None]:
        return [self.fleet.node_of.get(slot.proc) for slot in self.fleet.slots]

    def told(self, standing: str) -> list[int]:
        return [a.node for a in self.of(m.NodeChanged) if a.standing == standing]


# ---------------------------------------------------------------- the start


def test_ranks_are_started_when_all_nodes_are_there_and_reach_each_other() -> None:
    job = Fleet()
    job.join(0, 1)
    assert not job.of(m.Start)
    job.join(2)
    assert [(a.rank, a.node) for a in job.of(m.Start)] == [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (5, 2)]
    assert job.told("joined") == [0, 1, 2]


def test_a_node_that_never_comes_ends_the_job_with_its_number() -> None:
    job = Fleet(node_wait_s=30.0)
    job.join(0, 2)
    job.pass_time(31.0, beating=[2])
    (end,) = job.of(m.End)
    assert (end.code, end.reason) == (1, "too few nodes")
    assert "not there: 1" in end.detail


def test_nodes_that_do_not_reach_each_other_start_nothing_until_they_do() -> None:
    job = Fleet()
    job.cut = {frozenset((1, 2))}
    job.join()
    assert not job.of(m.Start)
    job.cut = set()
    job.pass_time(1.5, beating=[1, 2])
    assert len(job.of(m.Start)) == 6


# ---------------------------------------------------------------- leases


def test_a_beat_is_granted_and_keeps_the_node() -> None:
    job = Fleet().run()
    job.pass_time(10.0, beating=[1, 2])
    assert {(a.node, a.session, a.number) for a in job.of(m.Grant)} == {(1, 1, 1), (2, 1, 1)}
    assert not job.told("lost")


def test_a_silent_nodes_ranks_move_only_when_its_lease_is_surely_over() -> None:
    job = Fleet().run()
    over_s = job.config.lease_s * (1 + job.config.clock_drift)
    job.beat(1, 2)
    job.tell(m.NodeBeat(1, 1, 2), over_s - 0.01)
    assert not job.told("lost")
    job.tell(m.Tick(), 0.02)
    assert job.told("lost") == [2]
    moved = [(a.rank, a.node) for a in job.of(m.Start)]
    assert [rank for rank, _ in moved] == [4, 5]
    assert {node for _, node in moved} == {0, 1}


def test_a_beat_of_an_earlier_session_is_not_granted() -> None:
    job = Fleet().run()
    assert job.tell(m.NodeBeat(1, 0, 5)) == []


def test_the_coordinators_own_node_has_no_lease() -> None:
    job = Fleet().run()
    job.pass_time(100.0, beating=[1, 2])
    assert job.fleet.nodes[0].standing is Standing.PRESENT


def test_a_node_that_has_begun_anew_has_lost_its_ranks_and_says_of_which_session() -> None:
    job = Fleet().run()
    job.join(1)
    lost = [a for a in job.of(m.NodeChanged) if a.standing == "lost"]
    assert [(a.node, a.session) for a in lost] == [(1, 1)]
    assert job.told("returned") == [1]
    assert sorted(a.rank for a in job.of(m.Start) if a.rank is not None) == [2, 3]


def test_a_node_that_says_that_it_ends_is_lost_at_once() -> None:
    job = Fleet().run()
    job.tell(m.NodeLeft(2, 1, "asked to end"))
    assert job.told("lost") == [2]


# ---------------------------------------------------------------- counting


def test_a_lost_node_is_one_loss_however_many_ranks_it_held() -> None:
    job = Fleet().run()
    job.tell(m.NodeLeft(2, 1, "asked to end"))
    assert job.fleet.restarts == 1
    (cause,) = [note.cause for note in job.of(m.Note) if note.name == "recovery.detect" and note.cause]
    assert (cause.kind, cause.node, cause.rank) == ("node_lost", 2, None)
    assert cause.detail == "node 2: asked to end; ranks 4, 5"


def test_what_the_survivors_felt_of_it_is_not_counted_besides() -> None:
    job = Fleet().run()
    job.tell(m.Failed(job.fleet.slots[0].proc, 1, "collective_error", "reset"))
    job.tell(m.NodeLeft(2, 1, "asked to end"))
    assert job.fleet.restarts == 1


def test_lost_nodes_are_no_deterministic_failure() -> None:
    job = Fleet(nodes=5, world=5, min_nodes=1).run()
    for node in (4, 3, 2):
        job.tell(m.NodeLeft(node, 1, "asked to end"))
        job.ready(*(slot.rank for slot in job.fleet.slots if slot.status.value != "ready"), version=None)
    assert not job.of(m.End)


def test_nodes_lost_together_all_go_before_a_rank_is_placed() -> None:
    job = Fleet(nodes=4, world=4).run()
    job.beat(1)
    job.now += 1.0
    job.beat(1)
    job.tell(m.Tick(), 1.1)
    assert job.told("lost") == [2, 3]
    assert {a.node for a in job.of(m.Start)} <= {0, 1}


def test_a_node_lost_while_ranks_leave_fails_the_job_by_its_name() -> None:
    job = Fleet().run()
    for slot in job.fleet.slots:
        job.tell(m.Ready(slot.proc, 1, "v1", True, slot.opened))
    assert job.of(m.Leave)
    job.tell(m.NodeLeft(2, 1, "power"))
    (end,) = job.of(m.End)
    assert (end.reason, end.detail) == (
        "failed after the last step",
        "node 2 was lost (power) before rank 4 had ended",
    )


# ---------------------------------------------------------------- who reaches whom


def broken(job: Fleet) -> None:
    job.tell(m.Failed(job.fleet.slots[0].proc, job.fleet.generation, "collective_error", "reset"))


def test_a_generation_waits_for_the_answers_of_all_nodes_with_ranks() -> None:
    job = Fleet().run()
    job.answering = False
    broken(job)
    job.ready(version=1)
    assert not job.of(m.Open)
    (probe,) = job.of(m.Probe)
    for node in probe.nodes:
        job.tell(m.Reached(node, probe.number, frozenset(probe.nodes) - {node}))
    assert len(job.of(m.Open)) == 1


def test_an_answer_to_an_older_probe_opens_nothing() -> None:
    job = Fleet().run()
    job.answering = False
    broken(job)
    job.ready(version=1)
    (probe,) = job.of(m.Probe)
    for node in probe.nodes:
        job.tell(m.Reached(node, probe.number - 1, frozenset(probe.nodes) - {node}))
    assert not job.of(m.Open)


def test_who_does_not_answer_is_asked_again_until_it_does() -> None:
    job = Fleet().run()
    job.mute = {2}
    broken(job)
    job.ready(version=1)
    job.pass_time(1.2, beating=[1, 2])
    assert not job.of(m.Open)
    job.mute = set()
    job.pass_time(1.5, beating=[1, 2])
    assert len(job.of(m.Open)) == 1


def test_a_node_that_is_lost_is_no_longer_waited_for() -> None:
    job = Fleet().run()
    job.mute = {2}
    broken(job)
    job.ready(0, 1, 2, 3, version=1)
    job.tell(m.NodeLeft(2, 1, "asked to end"))
    assert {a.node for a in job.of(m.Start)} <= {0, 1}
    assert len(job.of(m.Start)) == 2


def test_of_two_that_can_not_reach_each_other_one_is_put_out_and_its_ranks_move() -> None:
    job = Fleet().run()
    job.cut = {frozenset((1, 2))}
    broken(job)
    assert job.told("evicted") == [2]
    assert sorted(a.proc for a in job.of(m.Fence)) == [5, 6]
    assert not job.of(m.Start)
    for fence in job.of(m.Fence):
        job.tell(m.Exited(fence.proc, None, 9))
    assert {a.node for a in job.of(m.Start)} <= {0, 1}
    assert job.fleet.restarts == 1


def test_it_is_tried_again_and_taken_back_when_they_reach_each_other() -> None:
    job = Fleet().run()
    job.cut = {frozenset((1, 2))}
    broken(job)
    job.cut = set()
    job.pass_time(1.5, beating=[1, 2])
    assert job.told("returned") == [2]


def test_while_a_generation_runs_no_probe_puts_anyone_out() -> None:
    job = Fleet(nodes=4, world=4).run()
    job.tell(m.NodeLeft(3, 1, "asked to end"))
    moved = job.fleet.slots[3].rank
    job.ready(*range(3), version=1)
    job.ready(moved)
    for slot in job.fleet.slots:
        job.tell(m.Formed(slot.proc, job.fleet.generation))
    job.cut = {frozenset((1, 2))}
    job.join(3)
    assert job.fleet.phase is Phase.RUNNING
    assert not job.told("evicted")


# ---------------------------------------------------------------- how many nodes


def test_no_generation_is_opened_over_a_minority() -> None:
    job = Fleet(node_wait_s=30.0).run()
    job.tell(m.NodeLeft(1, 1, "asked to end"))
    job.tell(m.NodeLeft(2, 1, "asked to end"))
    starts = len(job.of(m.Start))
    job.pass_time(20.0)
    assert not job.of(m.Open)
    assert len(job.of(m.Start)) == starts
    job.pass_time(15.0)
    (end,) = job.of(m.End)
    assert (end.code, end.reason) == (1, "too few nodes")


def test_nodes_that_come_back_in_time_let_it_go_on() -> None:
    job = Fleet(node_wait_s=30.0).run()
    job.tell(m.NodeLeft(1, 1, "asked to end"))
    job.tell(m.NodeLeft(2, 1, "asked to end"))
    job.pass_time(10.0)
    job.join(1)
    assert all(slot.status.value in ("returning", "starting") for slot in job.fleet.slots)
    job.ready(0, 1, version=1)
    job.ready(2, 3, 4, 5)
    assert len(job.of(m.Open)) == 1
    job.pass_time(40.0, beating=[1])
    assert "too few nodes" not in [end.reason for end in job.of(m.End)]


def test_no_node_takes_more_ranks_than_it_may() -> None:
    job = Fleet(max_per_node=3, node_wait_s=30.0).run()
    job.tell(m.NodeLeft(2, 1, "asked to end"))
    assert job.places().count(0) == job.places().count(1) == 3
    job = Fleet(max_per_node=2, node_wait_s=30.0).run()
    job.tell(m.NodeLeft(2, 1, "asked to end"))
    assert not job.of(m.Start)
    job.join(2)
    assert [a.node for a in job.of(m.Start)] == [2, 2]


def test_a_spare_on_another_node_is_promoted_and_one_on_the_lost_node_is_forgotten() -> None:
    job = Fleet(spares=1).run()
    spares = {node: proc for proc, node in job.fleet.node_of.items() if proc in job.fleet.spares}
    assert sorted(spares) == [0, 1, 2]
    job.tell(m.NodeLeft(2, 1, "asked to end"))
    assert {a.proc for a in job.of(m.Promote)} == {spares[0], spares[1]}
    assert spares[2] not in job.fleet.spares


def test_all_holders_on_lost_nodes_end_the_job() -> None:
    job = Fleet(min_nodes=1).run()
    for rank in (0, 1):
        job.tell(m.Exited(job.fleet.slots[rank].proc, None, 9))
    job.tell(m.NodeLeft(1, 1, "power"))
    assert not job.of(m.End)
    job.tell(m.NodeLeft(2, 1, "power"))
    (end,) = job.of(m.End)
    assert (end.code, end.reason) == (3, "state lost")


@pytest.mark.parametrize("event", [m.NodeJoined(1, 2), m.NodeBeat(1, 1, 9), m.Tick()])
def test_nothing_happens_after_the_end(event: m.NodeJoined | m.NodeBeat | m.Tick) -> None:
    job = Fleet(node_wait_s=1.0)
    job.join(0, 1)
    job.pass_time(2.0, beating=[1])
    assert job.of(m.End)
    assert job.tell(event) == []
    assert job.fleet.due() == float("inf")


def test_after_a_pause_of_the_coordinator_what_is_overdue_comes_before_what_is_heard() -> None:
    """Everyone's lease has run out meanwhile; answers from before say that its own node can't be reached."""
    job = Fleet().run()
    job.answering = False
    broken(job)
    job.ready(0, 1, version=1)
    (probe,) = job.of(m.Probe)
    job.now += 4.0
    for node in (1, 2):
        job.tell(m.Reached(node, probe.number, frozenset({1, 2}) - {node}))
    assert job.told("lost") == [1, 2]
    assert not job.told("evicted")
    assert not job.of(m.End)


# ---------------------------------------------------------------- who is late


def late(job: Fleet, rank: int, generation: int = 1) -> m.Accused:
    return m.Accused(job.fleet.slots[rank].proc, generation, "hang", "2 s late", 0.0)


def test_a_rank_that_is_late_is_fenced_when_all_nodes_reach_each_other() -> None:
    job = Fleet().run()
    job.tell(late(job, 3))
    assert [a.proc for a in job.of(m.Fence)] == [4]
    assert len(job.of(m.Probe)) == 2  # before the fence, and after it for the next generation


def test_of_a_rank_behind_a_broken_link_the_node_is_put_out_and_nobody_accused() -> None:
    job = Fleet().run()
    job.cut = {frozenset((1, 2))}
    job.tell(late(job, 3))
    assert job.told("evicted") == [2]
    assert {a.proc for a in job.of(m.Fence)} == {5, 6}


def test_nobody_is_accused_while_a_node_is_silent() -> None:
    job = Fleet().run()
    job.mute = {2}
    job.tell(late(job, 3))
    job.now += 1.1
    job.beat(1, 2)
    job.tell(m.Tick())
    assert not job.of(m.Fence)


def test_an_accusation_of_an_older_generation_asks_no_one() -> None:
    job = Fleet().run()
    assert job.tell(late(job, 3, generation=0)) == []


def test_the_ranks_of_a_node_that_is_not_heard_miss_no_deadline_of_their_own() -> None:
    """Their peers felt the break at once; that they do not come out of it is the lost node's doing."""
    fleet = Fleet(lease_s=3.0).run()
    fleet.tell(m.Pace(0.05))
    fleet.mute.add(2)
    survivor = fleet.fleet.slots[0]
    fleet.tell(m.Failed(survivor.proc, fleet.fleet.generation, "collective_error", "reset by peer"))
    fleet.ready(0, 1, 2, 3, version=1)
    fleet.pass_time(3.5, beating=(1,))
    assert [cause for note in fleet.of(m.Note) if (cause := note.cause) and cause.kind == "collateral"] == []
    assert fleet.fleet.healing is not None
    assert [cause.kind for cause in fleet.fleet.healing.causes] == ["node_lost"]


def test_a_node_without_ranks_that_is_lost_while_they_gather_no_longer_counts() -> None:
    job = Fleet(nodes=3, world=2, min_nodes=3)
    job.join()
    job.ready(0)
    job.tell(m.NodeLeft(2, 1, "asked to end"))
    job.ready(1)
    assert not job.of(m.Open)
    job.join(2)
    assert len(job.of(m.Open)) == 1


def test_a_node_that_died_after_its_answer_puts_no_other_out() -> None:
    job = Fleet().run()
    job.answering = False
    broken(job)
    (probe,) = job.of(m.Probe)
    job.tell(m.Reached(1, probe.number, frozenset({0, 2})))
    job.tell(m.Reached(0, probe.number, frozenset({1, 2})))
    job.tell(m.Reached(2, probe.number, frozenset({0})))  # node 1 has lost its power by now
    assert not job.told("evicted")
    again = job.of(m.Probe)[-1]
    assert again.number > probe.number
    job.tell(m.Reached(0, again.number, frozenset({2})))
    job.tell(m.Reached(2, again.number, frozenset({0})))
    job.now += job.config.probe_limit_s
    job.beat(2)
    job.tell(m.Tick())
    assert not job.told("evicted")
