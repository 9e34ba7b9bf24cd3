"""One run's history: every event in time order, with typed indexes over it.

Rules kept here:

- The order is the order of time stamps; events of one instant keep the order in which they were read.
- A line that is no JSON object is counted in `torn` and skipped: a process that is killed while it
  writes leaves one, and that is not the run's fault.
- Nothing is judged here. An index only sorts what was reported.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from chaos.faults import trails
from chaos.records import (
    Commit,
    Event,
    Exit,
    FaultTrail,
    Formed,
    Generation,
    Recovery,
    Worker,
    int_of,
    list_of,
    text_of,
    time_of,
)
from chaos.recoveries import derived_recoveries, reported_recoveries


class History:
    """All events of one run, sorted by monotonic time. Immutable; indexes are built on first use.

    Attributes:
        events: the events, oldest first.
        torn: lines that were no JSON object (a process killed while writing leaves one).
    """

    def __init__(self, events: Iterable[Event], torn: int = 0) -> None:
        self.events: tuple[Event, ...] = tuple(sorted(events, key=time_of))
        self.torn = torn

    @classmethod
    def load(cls, path: Path) -> History:
        """Read a ``history.jsonl``. Raises OSError if it can't be read; bad lines are counted."""
        # A killed writer can leave half a UTF-8 sequence; it must not hide the lines around it.
        return cls.parse(path.read_text(encoding="utf-8", errors="replace").splitlines())

    @classmethod
    def parse(cls, lines: Iterable[str]) -> History:
        """Read JSON lines. Blank lines are skipped, bad ones counted in `torn`."""
        events: list[Event] = []
        torn = 0
        for line in lines:
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except ValueError:
                torn += 1
                continue
            if isinstance(value, dict) and text_of(value, "event") is not None:
                events.append(value)
            else:
                torn += 1
        return cls(events, torn)

    @cached_property
    def _by_name(self) -> dict[str, list[Event]]:
        index: dict[str, list[Event]] = defaultdict(list)
        for event in self.events:
            index[text_of(event, "event") or ""].append(event)
        return dict(index)

    def of(self, *names: str) -> tuple[Event, ...]:
        """The events of these names, oldest first."""
        if len(names) == 1:
            return tuple(self._by_name.get(names[0], ()))
        return tuple(event for event in self.events if event.get("event") in names)

    def has(self, name: str) -> bool:
        """Whether any event of this name was reported."""
        return name in self._by_name

    @cached_property
    def _commits(self) -> tuple[Commit, ...]:
        found = (Commit.of(event) for event in self.of("step.commit"))
        return tuple(commit for commit in found if commit is not None)

    @cached_property
    def _commits_by_rank(self) -> dict[int, tuple[Commit, ...]]:
        index: dict[int, list[Commit]] = defaultdict(list)
        for commit in self._commits:
            index[commit.rank].append(commit)
        return {rank: tuple(commits) for rank, commits in sorted(index.items())}

    def commits(self, rank: int | None = None) -> tuple[Commit, ...]:
        """All commits, or one logical rank's, oldest first."""
        return self._commits if rank is None else self._commits_by_rank.get(rank, ())

    @property
    def ranks(self) -> tuple[int, ...]:
        """Logical ranks that committed anything, ascending."""
        return tuple(self._commits_by_rank)

    @cached_property
    def commits_by_step(self) -> dict[int, tuple[Commit, ...]]:
        """Commits of every rank per step, steps ascending, commits oldest first."""
        index: dict[int, list[Commit]] = defaultdict(list)
        for commit in self._commits:
            index[commit.step].append(commit)
        return {step: tuple(commits) for step, commits in sorted(index.items())}

    @cached_property
    def faults(self) -> dict[str, FaultTrail]:
        """What the engine reported about each fault, by fault id in order of first mention."""
        return trails(event for event in self.events if str(event.get("event")).startswith("fault."))

    @cached_property
    def generations(self) -> dict[int, Generation]:
        """Generations by number: who was invited and who entered."""
        found: dict[int, Generation] = {}
        for event in self.of("generation.open", "generation.formed"):
            number = int_of(event, "generation")
            if number is None:
                continue
            known = found.get(number, Generation(number=number))
            if event.get("event") == "generation.open":
                # A generation may be opened again with other members; the last invitation counts.
                known = replace(
                    known, t=known.t or time_of(event), cause=text_of(event, "cause"), members=_members(event)
                )
            else:
                known = replace(known, formed=(*known.formed, *_formed(event, number)))
            found[number] = known
        return dict(sorted(found.items()))

    @cached_property
    def workers(self) -> tuple[Worker, ...]:
        """Processes of the job in order of appearance: started, promoted to a rank, or seen."""
        found = []
        for event in self.of("worker.start", "worker.promoted", "process.seen"):
            pid = int_of(event, "pid")
            if pid is None:
                continue
            # A process that the engine merely saw may still carry the rank of the one that forked it.
            rank = int_of(event, "rank") if event.get("event") != "process.seen" else None
            found.append(
                Worker(
                    t=time_of(event),
                    pid=pid,
                    start_ticks=int_of(event, "start_ticks"),
                    rank=rank,
                    role=text_of(event, "role"),
                )
            )
        return tuple(found)

    @cached_property
    def exits(self) -> tuple[Exit, ...]:
        """Processes of the job that ended, oldest first."""
        return tuple(
            Exit(
                t=time_of(event),
                pid=pid,
                rank=int_of(event, "rank"),
                code=int_of(event, "code"),
                signal=int_of(event, "signal"),
                expected=event.get("expected") is True,
            )
            for event in self.of("worker.exit")
            if (pid := int_of(event, "pid")) is not None
        )

    def recoveries(self, ignore: Collection[str] = ()) -> tuple[Recovery, ...]:
        """Recoveries in time order, each with the faults that it answers.

        Reported ones if the target reports them (``recovery.done``); else derived from restarted
        processes and the next commit above the highest step committed before.

        Args:
            ignore: ids of faults that are known to cause no recovery (a short delay, say).
        """
        fired = [
            fault for fault in self.faults.values() if fault.fired_t is not None and fault.id not in ignore
        ]
        fired.sort(key=lambda fault: fault.fired_t or 0.0)
        if self.has("recovery.done") or self.has("generation.open"):
            return reported_recoveries(self.of("recovery.done"), self._commits, fired)
        return derived_recoveries(self.workers, self._commits, fired)


def _members(event: Event) -> tuple[tuple[int, int | None], ...]:
    """The (rank, pid) pairs of a ``generation.open``."""
    pairs = (
        (int_of(item, "rank"), int_of(item, "pid"))
        for item in list_of(event, "members")
        if isinstance(item, dict)
    )
    return tuple((rank, pid) for rank, pid in pairs if rank is not None)


def _formed(event: Event, number: int) -> tuple[Formed, ...]:
    """The record of a ``generation.formed``; empty if it names no rank."""
    rank = int_of(event, "rank")
    if rank is None:
        return ()
    return (
        Formed(
            t=time_of(event),
            generation=number,
            rank=rank,
            pid=int_of(event, "pid"),
            fds=int_of(event, "fds"),
            threads=int_of(event, "threads"),
            rss_bytes=int_of(event, "rss_bytes"),
        ),
    )
