"""One open run for many tests: the template that has torch imported, the undo journal and the reaper are made
once, and each test's runs take place in it. Knows nothing of pytest.

Rules kept here:

- It opens at its first use. Until then nothing is started and no folder is made.
- Every run is complete in its own folder: plan, report, histories, twins.
- `close` leaves nothing behind but those folders, and says what it could not remove. If this process is
  killed, the reaper does it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chaos.judge import ScenarioVerdict
from chaos.plan import Plan
from chaos.report.model import Report
from chaos.runner.context import Context
from chaos.runner.interrupt import Interrupted, Interrupts
from chaos.runner.run import Run
from chaos.runner.view import View
from chaos.testing.result import Result

# What a test file imports and every rank with it: the template has it ready for all of them.
OFTEN = ("pytest", "hypothesis", "chaos.strategies", "chaos.testing.property")


class Quiet(View):
    """A view that shows nothing: the test runner has the terminal."""

    def __enter__(self) -> Quiet:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def began(self, plan: Plan, path: Path, replay: str) -> None:
        return

    def twin(self, name: str) -> None:
        return

    def scenario(self, name: str, steps: int | None) -> None:
        return

    def event(self, event: Mapping[str, object]) -> None:
        return

    def verdict(self, verdict: ScenarioVerdict) -> None:
        return

    def ended(self, report: dict[str, object], left: list[str]) -> None:
        return


@dataclass
class Bench:
    """Where a session's runs take place.

    Args:
        home: a folder of this process alone, for the journal and for the twins that its runs share.
        command: the command line that reports tell; by default pytest's.
    """

    home: Path
    command: str | None = None
    _context: Context | None = field(default=None, init=False)

    @property
    def context(self) -> Context:
        """The open run.

        Raises:
            Refused: the folder cannot be written to.
        """
        if self._context is None:
            preload = tuple(name for name in OFTEN if name in sys.modules)
            self._context = Context.open(self.home, preload)
        return self._context

    def run(self, plan: Plan, folder: Path) -> Result:
        """Run a plan; its faults are undone and its processes gone afterwards, whatever happened.

        Raises:
            UserError: it cannot be run here; nothing was started.
            Interrupted: the user ended it; what there is of the report is written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        command = self.command or f"pytest {' '.join(sys.argv[1:])}".rstrip()
        with Interrupts() as interrupts:
            cache = self.home / "shared-twins"
            run = Run(plan, folder, Quiet("plain", plan), interrupts, cache, command, self.context)
            outcome = run.execute()
        if interrupts.seen is not None:
            raise Interrupted(interrupts.seen.name)
        return Result(Report.model_validate(outcome.report), plan, folder)

    def close(self) -> list[str]:
        """End everything; returns what could not be removed. May be repeated."""
        context, self._context = self._context, None
        return [] if context is None else context.close()
