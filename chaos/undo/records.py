"""What an undo journal says. Pure: lines in, decisions out.

A journal is JSON lines, in this order: one `open` (the run, its process, what it will leave), then for each
fault with something to undo one `undo` *before* it is injected and one `undone` after it was taken back, then
one `closed`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Opening:
    """Who opened a journal, and where the run keeps what must not be left behind."""

    run: str
    pid: int
    start_ticks: int
    temp: str
    shm_before: tuple[str, ...] | None
    """What was in shared memory before; None: nothing that is new there is the run's."""
    started_at: float
    """Wall-clock time (seconds since the epoch) at which the run began: shared memory older than this is not
    its."""

    def to_line(self) -> dict[str, Any]:
        return {
            "op": "open",
            "run": self.run,
            "pid": self.pid,
            "start_ticks": self.start_ticks,
            "temp": self.temp,
            "shm_before": None if self.shm_before is None else list(self.shm_before),
            "started_at": self.started_at,
        }

    @classmethod
    def of(cls, line: dict[str, Any]) -> Opening:
        return cls(
            str(line["run"]),
            int(line["pid"]),
            int(line["start_ticks"]),
            str(line["temp"]),
            None if line["shm_before"] is None else tuple(line["shm_before"]),
            float(line["started_at"]),
        )


@dataclass
class Journal:
    """A journal as read. `pending` are the undo records not yet carried out, newest first."""

    opening: Opening | None = None
    closed: bool = False
    clean: bool = False
    closed_by: str = ""
    torn: int = 0
    records: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def pending(self) -> list[tuple[str, dict[str, Any]]]:
        """Open undo records, in the order in which they must be carried out: the last fault first."""
        return list(reversed(self.records.items()))


def parse(lines: Iterable[str]) -> Journal:
    """Read a journal. A torn last line is a write that was cut off, so its fault was never injected."""
    journal = Journal()
    for text in lines:
        try:
            line = json.loads(text)
        except ValueError:
            journal.torn += 1
            continue
        match line.get("op"):
            case "open":
                journal.opening = Opening.of(line)
            case "undo":
                journal.records[line["key"]] = line["record"]
            case "undone":
                journal.records.pop(line["key"], None)
            case "closed":
                journal.closed, journal.clean, journal.closed_by = True, bool(line["clean"]), str(line["by"])
            case other:
                raise ValueError(f"unknown journal line {other!r}")
    return journal
