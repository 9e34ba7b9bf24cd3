"""The live view of a run: what each scenario is doing now. Degrades to plain lines without a terminal.

It is fed with the history's own events and draws; it decides nothing and must never stop a run, so an
event that it does not understand is passed over.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from chaos.judge import ScenarioVerdict
from chaos.records import float_of, list_of, text_of
from chaos.report.course import Course
from chaos.report.now import FaultNow, Now
from chaos.report.screen import LAST_LINES, Size, lines_of, waiting
from chaos.report.table import STYLES, seconds

# A screen drawn oftener takes time from the job on a small machine.
FRAMES_PER_S = 4


class LiveView:
    """Shows a run while it runs. Use as a context manager. Events may come from any thread.

    Args:
        steps: how many steps each scenario has, in order; None where that is unknown.
        console: where to draw; a default one honours NO_COLOR, TERM=dumb and redirection.
        plain: force plain lines even on a terminal.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        steps: Sequence[int | None],
        console: Console | None = None,
        plain: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.console = console or Console()
        self.course = Course(steps)
        self.now: Now | None = None
        self._clock = clock
        self._began_s = 0.0
        self._told: deque[str] = deque(maxlen=LAST_LINES)
        # Events come from the engine's threads, frames from one of the screen's own.
        self._lock = threading.Lock()
        interactive = self.console.is_terminal and not self.console.is_dumb_terminal and not plain
        self._live = (
            Live(
                console=self.console,
                refresh_per_second=FRAMES_PER_S,
                transient=True,
                get_renderable=self.render,
            )
            if interactive
            else None
        )

    def __enter__(self) -> LiveView:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def on_scenario(
        self, name: str, steps: int | None = None, world: int | None = None, faults: Sequence[FaultNow] = ()
    ) -> None:
        """A scenario begins. `steps`, `world`: as planned, if known."""
        with self._lock:
            self.now = Now(name, steps or 0, world or 0, faults)
            self._began_s = self._clock()
            self._told.clear()
        if self._live is None:
            self._print(f"[{len(self.course.took_s) + 1}/{self.course.total}] {name}")

    def on_event(self, event: Mapping[str, object]) -> None:
        """Any event of the history, in the order in which it arrives."""
        line = line_of(event)
        with self._lock:
            if self.now is None:
                return
            self.now.feed(event)
            if line is not None:
                self._told.append(line)
        if line is not None and self._live is None:
            self._print(f"    {line}")

    def on_verdict(self, verdict: ScenarioVerdict) -> None:
        """A scenario was judged: a line that stays."""
        with self._lock:
            self.course.took_s.append(self._clock() - self._began_s)
            self.now = None
        mark = "" if verdict.as_expected else f" (expected {verdict.expected})"
        text = Text.assemble(
            ("  ", ""),
            (str(verdict.verdict), STYLES[verdict.verdict]),
            (mark, ""),
            ("  ", ""),
            (verdict.name, "bold"),
            (f"  {verdict.reason}", ""),
        )
        self._print(text)

    def _print(self, text: Text | str) -> None:
        # Text never wraps here: a line of a log file is one line.
        self.console.print(text, soft_wrap=True, markup=False, highlight=False)

    def render(self) -> RenderableType:
        """The part of the screen that changes."""
        with self._lock:
            if self.now is None:
                return waiting(self.course)
            at_s = self._clock()
            # A line is kept free: what is printed above scrolls the screen by one.
            size = Size(self.console.width, self.console.height - 1)
            lines = lines_of(self.course, self.now, list(self._told), (at_s, at_s - self._began_s), size)
        return Group(*lines)


def line_of(event: Mapping[str, object]) -> str | None:
    """One line for an event that a person wants to see happen; None for all others."""
    name = text_of(event, "event") or ""
    fault = f"{event.get('fault')} {event.get('name') or ''}".strip()
    if name in ("fault.fired", "fault.verified", "fault.undone", "fault.failed"):
        place = "".join(
            f" {key} {event[key]}" for key in ("rank", "step", "phase") if event.get(key) is not None
        )
        return f"{name.removeprefix('fault.')} {fault}{place}"
    if name == "recovery.detect":
        whom = f"rank {event['rank']} " if event.get("rank") is not None else ""
        return f"detected {whom}{event.get('kind')}"
    if name == "recovery.done":
        total_s = float_of(event, "total_s")
        causes = [cause for cause in list_of(event, "causes") if isinstance(cause, dict)]
        ranks = ", ".join(str(cause.get("rank")) for cause in causes)
        took = f" in {seconds(total_s)}" if total_s is not None else ""
        return f"recovered rank {ranks or '?'}{took}, generation {event.get('generation')}"
    if name in ("budget.exhausted", "orphan.seen"):
        return f"{name}: {event.get('detail') or event.get('reason') or event.get('argv') or ''}".rstrip(": ")
    return None
