"""`torch-chaos` that kills itself: python -m tests.chaos.undo.doomed POINT TRACE ARGS...

A double of the undo journal, and wrappers around the acts of the faults that have an undo. They write each
boundary that the run passes to TRACE, and at POINT (JSON, see `Point`; `null` for none) they send SIGKILL to
the process. Nothing of this is in the product: there is no switch that a user could trip over.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from chaos.runner import context
from chaos.undo.journal import JournalFile
from chaos.undo.reaper import Reaper
from injectors.catalogue import CATALOGUE

ACTS = ("inject", "verify", "undo")


@dataclass(frozen=True)
class Point:
    """One moment of a run: `label` names a line of the journal or an act, `nth` which of its occurrences.

    `how`: before | torn | after a line (torn: half of it is written), during | after an act (during: so many
    seconds, `delay_s`, into it). `reaper`: the process that outlives the tool is killed first.
    """

    label: str
    how: str
    nth: int = 1
    delay_s: float = 0.0
    reaper: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def __str__(self) -> str:
        nth = f" (number {self.nth})" if self.nth > 1 else ""
        late = f" {self.delay_s * 1000:.1f} ms in" if self.how == "during" else ""
        return f"{self.how} {self.label}{nth}{late}{', with the reaper' if self.reaper else ''}"


class Doom:
    """Counts what passes, and ends the process when the point has come."""

    def __init__(self, point: Point | None, trace: int) -> None:
        self._point, self._trace = point, trace
        self._seen: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.reaper = 0

    def enter(self, label: str) -> int:
        """Something of this label begins; returns its number among those of the label."""
        with self._lock:
            self._seen[label] += 1
            nth = self._seen[label]
        self.at(label, nth, "before")
        point = self._point
        if point is not None and point.how == "during" and (point.label, point.nth) == (label, nth):
            timer = threading.Timer(point.delay_s, self._die)
            timer.daemon = True
            timer.start()
        return nth

    def at(self, label: str, nth: int, how: str) -> None:
        """The process ends here if this is the point."""
        point = self._point
        if point is not None and (point.label, point.nth, point.how) == (label, nth, how):
            self._die()

    def is_torn(self, label: str, nth: int) -> bool:
        point = self._point
        return point is not None and (point.label, point.nth, point.how) == (label, nth, "torn")

    def passed(self, label: str, nth: int, kind: str, took_s: float) -> None:
        """Something has ended, and the process lives."""
        line = {"label": label, "nth": nth, "kind": kind, "took_s": took_s}
        os.write(self._trace, json.dumps(line).encode() + b"\n")
        self.at(label, nth, "after")

    def _die(self) -> None:
        if self._point is not None and self._point.reaper and self.reaper:
            os.kill(self.reaper, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def journal_of(doom: Doom) -> type[JournalFile]:
    """The double of the journal."""

    class DoomedJournal(JournalFile):
        def _write(self, line: dict[str, Any]) -> None:
            label = f"{line['op']} {line.get('key', '')}".strip()
            nth = doom.enter(label)
            if doom.is_torn(label, nth):
                data = json.dumps(line).encode()
                assert self._fd is not None
                os.write(self._fd, data[: len(data) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            began = time.monotonic()
            super()._write(line)
            doom.passed(label, nth, "line", time.monotonic() - began)

    return DoomedJournal


def wrapped(doom: Doom, act: Callable[..., Any], label: str) -> Callable[..., Any]:
    @functools.wraps(act)
    def call(*args: Any, **kwargs: Any) -> Any:
        nth, began = doom.enter(label), time.monotonic()
        result = act(*args, **kwargs)
        doom.passed(label, nth, "act", time.monotonic() - began)
        return result

    return call


def main() -> None:
    point = json.loads(sys.argv[1])
    trace = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    doom = Doom(Point(**point) if point else None, trace)
    for name, fault in CATALOGUE.items():
        for act in ACTS if fault.has_undo else ():
            setattr(fault, act, wrapped(doom, getattr(fault, act), f"{act} {name}"))
    start = Reaper.start

    def started(journal: Any) -> Reaper:
        reaper = start(journal)
        doom.reaper = reaper.pid
        return reaper

    context.JournalFile = journal_of(doom)  # type: ignore[misc]
    Reaper.start = staticmethod(started)  # type: ignore[assignment, method-assign]
    sys.argv = ["torch-chaos", *sys.argv[3:]]
    from chaos.cli import main as run

    run()


if __name__ == "__main__":
    main()
