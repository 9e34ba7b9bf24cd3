"""Which process held a rank, and from when to when. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise

from chaos.history import History
from chaos.records import int_of, text_of, time_of


@dataclass(frozen=True)
class Life:
    """A process while it held a rank; times in monotonic seconds."""

    rank: int
    pid: int
    node: int | None
    start_t: float
    end_t: float


def lives_of(history: History) -> list[Life]:
    """Every holder of every rank, by rank and time. One rank has one holder at a time.

    A process that nothing saw end held its rank until its last event: for a script that we did not write
    no one reports the end.
    """
    last: dict[int, float] = {}
    for event in history.events:
        if (pid := int_of(event, "pid")) is not None:
            last[pid] = time_of(event)
    ended = {end.pid: end.t for end in history.exits}
    committing = {commit.pid for commit in history.commits() if commit.pid is not None}
    found: dict[int, dict[int, Life]] = defaultdict(dict)
    for event in history.of("worker.start", "worker.promoted"):
        rank, pid = int_of(event, "rank"), int_of(event, "pid")
        if rank is None or pid is None:
            continue
        # A data loader's worker carries its trainer's rank, and commits nothing.
        if text_of(event, "source") == "agent" and committing and pid not in committing:
            continue
        t = time_of(event)
        end_t = max(t, ended.get(pid, last.get(pid, t)))
        found[rank].setdefault(pid, Life(rank, pid, int_of(event, "node"), t, end_t))
    return [life for _, held in sorted(found.items()) for life in _in_turn(list(held.values()))]


def _in_turn(held: list[Life]) -> list[Life]:
    """The end of a process is often reported after its successor's start."""
    cut = [replace(old, end_t=min(old.end_t, new.start_t)) for old, new in pairwise(held)]
    return [*cut, held[-1]]
