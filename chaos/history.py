"""One run's history: every event in time order, with typed indexes over it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from chaos.records import Commit, Event, FaultTrail, Generation, Recovery, Worker


class History:
    """All events of one run, sorted by monotonic time. Immutable; indexes are built on first use.

    Attributes:
        events: the events, oldest first.
        torn: lines that were no JSON object (a process killed while writing leaves one).
    """

    def __init__(self, events: Iterable[Event], torn: int = 0) -> None:
        self.events: tuple[Event, ...] = tuple(events)
        self.torn = torn

    @classmethod
    def load(cls, path: Path) -> History:
        """Read a ``history.jsonl``. Raises OSError if it can't be read; bad lines are counted."""
        raise NotImplementedError

    @classmethod
    def parse(cls, lines: Iterable[str]) -> History:
        """Read JSON lines."""
        raise NotImplementedError

    def of(self, *names: str) -> tuple[Event, ...]:
        """The events of these names, oldest first."""
        raise NotImplementedError

    def commits(self, rank: int | None = None) -> tuple[Commit, ...]:
        """All commits, or one logical rank's, oldest first."""
        raise NotImplementedError

    @property
    def commits_by_step(self) -> dict[int, list[Commit]]:
        """Commits per step."""
        raise NotImplementedError

    @property
    def faults(self) -> dict[str, FaultTrail]:
        """Trail per fault id, in order of first mention."""
        raise NotImplementedError

    @property
    def generations(self) -> dict[int, Generation]:
        """Generations by number."""
        raise NotImplementedError

    @property
    def workers(self) -> tuple[Worker, ...]:
        """Processes of the job."""
        raise NotImplementedError

    def recoveries(self) -> tuple[Recovery, ...]:
        """Recoveries, reported by the target or derived from faults and commits."""
        raise NotImplementedError
