"""Who sat on which logical rank when, and who was a fault's victim: shared by several invariants."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.history import History
from chaos.invariants.expectations import ABORT_SIGNAL
from chaos.invariants.scene import Scene
from chaos.records import Event, FaultTrail, int_of, time_of


@dataclass(frozen=True)
class Seat:
    """A process seen on a logical rank at a time (monotonic seconds)."""

    t: float
    rank: int
    pid: int


def seats(history: History) -> list[Seat]:
    """Every sighting of a process on a rank (invitations, starts, commits), oldest first."""
    found = [
        Seat(generation.t or 0.0, rank, pid)
        for generation in history.generations.values()
        for rank, pid in generation.members
        if pid is not None
    ]
    found += [
        Seat(worker.t, worker.rank, worker.pid) for worker in history.workers if worker.rank is not None
    ]
    found += [
        Seat(commit.t, commit.rank, commit.pid) for commit in history.commits() if commit.pid is not None
    ]
    return sorted(found, key=lambda seat: seat.t)


def is_victim(history: History, scene: Scene, rank: int | None, pid: int | None, until_t: float) -> bool:
    """Whether a fault that fired before `until_t` may have cost this process its life.

    A fault that should cause no recovery has no victim. One that may cost any rank (a size mismatch)
    excuses every process; one that puts ranks out of step excuses those that gloo aborts. One of nodes or
    networks excuses those on the nodes that were given up because of it.
    """
    aborted = any(exit_.pid == pid and exit_.signal == ABORT_SIGNAL for exit_ in history.exits)
    for trail in history.faults.values():
        planned = scene.fault(trail.id)
        if trail.fired_t is None or trail.fired_t > until_t or (planned is not None and not planned.kinds):
            continue
        if planned is not None and (planned.any_rank or (planned.may_abort and aborted)):
            return True
        if trail.nodes:
            if _lost_with_node(history, trail, rank, pid):
                return True
        elif trail.pid == pid if trail.pid is not None else trail.rank == rank:
            return True
    return False


def _lost_with_node(history: History, trail: FaultTrail, rank: int | None, pid: int | None) -> bool:
    """Whether a process was on a node that a fault touched and that was given up after it.

    Of a target that tells of no nodes only the ranks on the aimed ones are known.
    """
    given_up = history.of("node.lost", "node.evicted", "lease.expired")
    if not history.of("node.joined"):
        return rank in trail.ranks
    lost = {lost_node(event) for event in given_up if time_of(event) >= (trail.fired_t or 0.0)}
    node = next((int_of(e, "node") for e in history.of("worker.start") if int_of(e, "pid") == pid), None)
    return node is not None and node in trail.touched and node in lost


def lost_node(event: Event) -> int | None:
    """The node that an event of loss is about: the one it names, or the one that speaks of itself."""
    about = int_of(event, "about")
    return int_of(event, "node") if about is None else about
