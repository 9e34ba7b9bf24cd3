"""The fixture `torch_chaos`: a test's own access to the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from chaos.errors import UserError
from chaos.plan import Plan
from chaos.runner.interrupt import Interrupted
from chaos.testing import needs
from chaos.testing.bench import Bench
from chaos.testing.build import Owner, Program, plan_of
from chaos.testing.options import Options
from chaos.testing.result import Result
from chaos.testing.wanted import Wanted, scenario_name


@dataclass(repr=False)
class TorchChaos:
    """Break training and see whether it recovers. Whatever a run does is undone when it ends.

    Attributes:
        test: the test that it belongs to.
        options: the session's.
        results: of all runs so far.
        folders: of all runs, those that came to no result included.
        keep: whether they stay when the test is over.
        unfinished: whether the last run came to no result.
    """

    test: Owner
    options: Options
    bench: Bench
    marked: Wanted
    reports: Path
    results: list[Result] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    keep: bool = False
    unfinished: bool = False

    def __repr__(self) -> str:
        return f"<torch_chaos of {self.test.name}>"

    @property
    def telling(self) -> Result:
        """The result that a failure is about: the last that is not as expected, or the last of all."""
        return next((r for r in reversed(self.results) if not r.as_expected), self.results[-1])

    def run(self, program: Program = None, **keywords: Any) -> Result:
        """Run a training function, a script or a command line, break it, and judge what it did.

        Args:
            program: a function of the test file (or of a module), called on every rank under `recovery`; the
                path of a script, or a shipped workload's name, run the same way; or a command line as a list,
                `["torchrun", ...]`, run as it is. Nothing: the marker's suite.
            keywords: see `chaos.testing.wanted.Wanted`; what is left open is the marker's.

        Raises:
            UserError: what is wrong with the request.
        """
        __tracebackhide__ = True
        folder = self._folder()
        try:
            wanted = Wanted.of(f"{self.test.name}: torch_chaos.run", keywords).over(self.marked)
            if program is not None and "suite" not in keywords:
                wanted = replace(wanted, suite=None)
            plan = plan_of(self.test, program, self._complete(wanted), folder)
            return self.run_plan(plan, folder)
        except UserError as error:
            # Where it was found in the engine says nothing to who made the mistake.
            raise error.with_traceback(None) from None

    def run_plan(self, plan: Plan, folder: Path | None = None) -> Result:
        """Run a plan as it stands, `chaos.runner.run.read_plan("plan.json")` for example."""
        __tracebackhide__ = True
        needs.skip_or_fail(needs.missing(plan), self.options)
        folder = folder or self._folder()
        self.unfinished = True
        try:
            result = self.bench.run(plan, folder)
        except Interrupted as interrupted:
            leave(interrupted)
        self.unfinished = False
        self.results.append(result)
        return result

    def _folder(self) -> Path:
        self.folders.append(free(self.reports / scenario_name(self.test.name)))
        return self.folders[-1]

    def _complete(self, wanted: Wanted) -> Wanted:
        """With what the options say, where the test says nothing."""
        return replace(
            wanted,
            seed=self.options.seed.number if wanted.seed is None else wanted.seed,
            repeat=wanted.repeat or self.options.repeat,
        )


def leave(interrupted: Interrupted) -> NoReturn:
    """End the session: the run has been rolled back."""
    pytest.exit(f"torch-chaos: {interrupted} during a run, which is rolled back", returncode=130)


def free(base: Path, exists: Callable[[Path], bool] = Path.exists) -> Path:
    """`base`, or with a number if there is something of that name: no report is overwritten."""
    number, path = 1, base
    while exists(path):
        number += 1
        path = base.with_name(f"{base.name}-{number}")
    return path
