"""What a person or a program sees of a run: the live view, plain lines, or one JSON document."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal

from rich.console import Console

from chaos import report as reports
from chaos.judge import ScenarioVerdict
from chaos.plan import Plan, PlannedFault
from chaos.report import LiveView
from chaos.report.now import FaultNow
from chaos.runner.desk import moment

Format = Literal["rich", "plain", "json"]


class View:
    """The output of one run. A context manager.

    Args:
        form: rich (live view and table), plain (lines), or json (the report on stdout, lines on stderr).
        plan: what is run.
    """

    def __init__(self, form: Format, plan: Plan) -> None:
        self.form = form
        self.console = Console(
            stderr=form == "json", no_color=True if form != "rich" else None, highlight=False
        )
        self._planned = {scenario.name: scenario for scenario in plan.scenarios}
        steps = [scenario.target.get("steps") for scenario in plan.scenarios]
        self._live = LiveView(steps, self.console, plain=form != "rich")

    def __enter__(self) -> View:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, value, trace)

    def began(self, plan: Plan, path: Path, replay: str) -> None:
        """The first lines: what it takes to do the same again."""
        self._say(f"{plan.suite}: {len(plan.scenarios)} scenarios, seed {plan.seed}")
        self._say(f"plan {path} (sha256 {plan.hash[:12]})")
        self._say(f"replay: {replay}")

    def twin(self, name: str) -> None:
        """A reference twin is run first."""
        self._say(f"    reference run for {name}")

    def scenario(self, name: str, steps: int | None) -> None:
        """A scenario begins."""
        planned = self._planned[name]
        self._live.on_scenario(name, steps, planned.target.get("world"), list(map(_fault, planned.faults)))

    def event(self, event: Mapping[str, object]) -> None:
        """Something happened."""
        self._live.on_event(event)

    def verdict(self, verdict: ScenarioVerdict) -> None:
        """A scenario was judged."""
        self._live.on_verdict(verdict)

    def ended(self, report: dict[str, object], left: list[str]) -> None:
        """The run is over."""
        self._live.__exit__(None, None, None)
        for line in left:
            self._say(f"LEFT OVER: {line}")
        show(report, self.form, self.console)

    def note(self, text: str) -> None:
        """Something that no event tells."""
        self._say(f"    {text}")

    def _say(self, text: str) -> None:
        self.console.print(text, soft_wrap=True, markup=False, highlight=False)


def _fault(planned: PlannedFault) -> FaultNow:
    return FaultNow(planned.id, planned.name, moment(planned), planned.expects, planned.has_undo)


def show(report: dict[str, object], form: Format, console: Console) -> None:
    """Print a report."""
    if form == "json":
        sys.stdout.write(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    elif form == "plain":
        console.print("\n" + reports.plain_table(report), soft_wrap=True, markup=False, highlight=False)
    else:
        console.print(reports.rich_table(report))
