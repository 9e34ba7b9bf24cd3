"""Runs a scenario on real processes, for a hunt."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from chaos.plan import Facts, Plan, PlannedScenario, twin_hash
from chaos.shrinking.artefacts import plan_of
from chaos.shrinking.failure import Failure, Outcome
from chaos.targets.make import sources_of
from chaos.targets.paths import folder_of
from chaos.testing.bench import Bench


@dataclass
class RealRuns:
    """Runs scenarios of one plan, each in a folder of its own below `home`, by default the bench's.

    The template, the undo journal and the reference runs are shared, so a run costs what the job itself
    takes.
    """

    plan: Plan
    bench: Bench
    home: Path | None = None
    runs: int = field(default=0, init=False)
    latest: Path | None = field(default=None, init=False)

    def __call__(self, scenario: PlannedScenario) -> Outcome:
        """Run it and judge it.

        Raises:
            UserError: it can't be run on this machine.
            Interrupted: the user ended it.
        """
        self.runs += 1
        self.latest = (self.home or self.bench.home) / f"run-{self.runs}"
        result = self.bench.run(plan_of(self.plan, self.settled(scenario)), self.latest)
        (judged,) = result.scenarios
        return Outcome.of(judged)

    def settled(self, scenario: PlannedScenario) -> PlannedScenario:
        """The scenario with the twin that its target has now."""
        sources = sources_of([scenario.target], folder_of(self.plan.folder))
        facts = Facts(self.plan.torch, sources, self.plan.folder)
        return replace(scenario, twin=twin_hash(scenario.target, self.plan.seed, facts))

    def forget_all_but(self, kept: Path | None) -> None:
        """Remove the folders of runs that are of no more use."""
        for folder in (self.home or self.bench.home).glob("run-*"):
            if folder != kept:
                shutil.rmtree(folder)


class NotAgain(Exception):
    """The failure did not come again, so that nothing can be said of a smaller plan."""


def reproduced(
    run: Callable[[PlannedScenario], Outcome], scenario: PlannedScenario, failure: Failure | None, most: int
) -> tuple[Outcome, int]:
    """Run a scenario until it fails; the outcome and how many runs that took.

    Args:
        failure: the one that is looked for; None for any violation.

    Raises:
        NotAgain: it did not fail in `most` runs.
    """
    outcome = Outcome("PASS")
    for number in range(1, most + 1):
        outcome = run(scenario)
        if failure.shown_by(outcome) if failure is not None else outcome.verdict == "VIOLATED":
            return outcome, number
    what = failure.invariant if failure is not None else "any invariant"
    raise NotAgain(
        f"{scenario.name} did not violate {what} in {most} runs, the last was {outcome.verdict}"
        f" ({outcome.reason})\n  mend: see with `run --repeat` how often it fails, and give --tries"
    )
