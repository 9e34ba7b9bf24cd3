"""Who sat on which logical rank when, and who was a fault's victim: shared by several invariants."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.history import History
from chaos.invariants.expectations import ABORT_SIGNAL
from chaos.invariants.scene import Scene


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
    excuses every process; one that puts ranks out of step excuses those that gloo aborts.
    """
    aborted = any(exit_.pid == pid and exit_.signal == ABORT_SIGNAL for exit_ in history.exits)
    for trail in history.faults.values():
        planned = scene.fault(trail.id)
        if trail.fired_t is None or trail.fired_t > until_t or (planned is not None and not planned.kinds):
            continue
        if planned is not None and (planned.any_rank or (planned.may_abort and aborted)):
            return True
        if trail.pid == pid if trail.pid is not None else trail.rank == rank:
            return True
    return False
