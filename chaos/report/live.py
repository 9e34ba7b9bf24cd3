"""The live view of a run: what each scenario is doing now. Degrades to plain lines without a terminal.

It is fed with the history's own events and draws; it decides nothing and must never stop a run, so an
event that it does not understand is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from chaos.judge import ScenarioVerdict
from chaos.records import float_of, int_of, list_of, text_of
from chaos.report.table import STYLES, seconds

LAST_LINES = 6


@dataclass
class Progress:
    """What is known of the scenario that is running."""

    name: str
    steps: int
    step: int = -1
    generation: int = 1
    lines: list[str] = field(default_factory=list)


class LiveView:
    """Shows a run while it runs. Use as a context manager.

    Args:
        total: number of scenarios.
        console: where to draw; a default one honours NO_COLOR, TERM=dumb and redirection.
        plain: force plain lines even on a terminal.
    """

    def __init__(self, total: int, console: Console | None = None, plain: bool = False) -> None:
        self.console = console or Console()
        self.total = total
        self.done: list[ScenarioVerdict] = []
        self.current: Progress | None = None
        interactive = self.console.is_terminal and not self.console.is_dumb_terminal and not plain
        self._live = (
            Live(console=self.console, refresh_per_second=4, transient=True, get_renderable=self.render)
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

    def on_scenario(self, name: str, steps: int | None = None) -> None:
        """A scenario begins. `steps`: planned steps, if known."""
        self.current = Progress(name, steps or 0)
        if self._live is None:
            self._print(f"[{len(self.done) + 1}/{self.total}] {name}")

    def on_event(self, event: Mapping[str, object]) -> None:
        """Any event of the history, in the order in which it arrives."""
        if self.current is None:
            return
        step = int_of(event, "step")
        if event.get("event") == "step.commit" and step is not None:
            self.current.step = max(self.current.step, step)
        elif event.get("event") == "generation.open":
            self.current.generation = int_of(event, "generation") or self.current.generation
        line = line_of(event)
        if line is None:
            return
        self.current.lines.append(line)
        if self._live is None:
            self._print(f"    {line}")

    def on_verdict(self, verdict: ScenarioVerdict) -> None:
        """A scenario was judged: a line that stays."""
        self.done.append(verdict)
        self.current = None
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
        if self.current is None:
            return Text(f"{len(self.done)} of {self.total} scenarios")
        now = self.current
        row = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=now.steps or None, completed=now.step + 1, width=30)
        row.add_row(
            Text(f"[{len(self.done) + 1}/{self.total}]"),
            Text(now.name, "bold"),
            bar,
            Text(f"step {now.step + 1}/{now.steps or '?'}  generation {now.generation}"),
        )
        return Group(row, *(Text(f"    {line}", "dim") for line in now.lines[-LAST_LINES:]))


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
