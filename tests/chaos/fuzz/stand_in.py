"""What stands in for real runs and real shrinking in the tests of searches. Starts no process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.fuzz.session import Shrunk
from chaos.plan import Plan, PlannedFault, PlannedScenario
from chaos.runner.interrupt import Interrupted
from chaos.testing.repeats import Judged
from chaos.testing.result import Result
from tests.chaos.testing import results

Broken = Callable[[PlannedScenario, int], bool]


def verdict_of(plan: Plan, verdict: str, folder: Path, fired: bool = True) -> Result:
    """A run that came to this; its faults struck, or none of them did."""
    (scenario,) = plan.scenarios
    faults = [_struck(fault, fired) for fault in scenario.faults]
    made = results.result(results.scenario(verdict, scenario.name, faults=faults), folder=folder)
    return Result(made.report, plan, folder)


def _struck(fault: PlannedFault, fired: bool) -> dict[str, Any]:
    what = {"id": fault.id, "name": fault.name, "where": fault.where, "when": fault.when}
    return {**results.FAULT, **what, "fired": fired, "verified": fired}


@dataclass
class StandIn:
    """Runs nothing: `broken` says of a scenario, and how often it was run before, whether it fails.

    `killed_at`: the run, counted from 1, in which the user ends it.
    """

    broken: Broken = lambda scenario, before: False
    verdict: str = "PASS"
    fired: bool = True
    killed_at: int = 0
    plans: list[Plan] = field(default_factory=list)

    def __call__(self, plan: Plan, folder: Path) -> Result:
        before = sum(known.hash == plan.hash for known in self.plans)
        self.plans.append(plan)
        folder.mkdir(parents=True)
        (folder / "report.json").write_text("{}")
        if len(self.plans) == self.killed_at:
            raise Interrupted("SIGINT")
        bad = self.broken(plan.scenarios[0], before)
        return verdict_of(plan, "VIOLATED" if bad else self.verdict, folder, self.fired)


@dataclass
class FirstFaultOnly:
    """Shrinks nothing: says that the first fault of this name is all that matters."""

    name: str
    asked: list[Judged] = field(default_factory=list)
    interrupted: bool = False

    def __call__(self, judged: Judged, folder: Path) -> Shrunk:
        self.asked.append(judged)
        assert (folder / "plan.json").is_file()
        return Shrunk((self.name,), "nothing smaller fails, in 0 runs", self.interrupted)


def has(name: str) -> Broken:
    """Fails whenever it has a fault of this name."""
    return lambda scenario, before: any(fault.name == name for fault in scenario.faults)


class StandInBench:
    """No bench: what would be run on one is said by a `StandIn`."""

    def __init__(self, run: StandIn, left: list[str] | None = None) -> None:
        self.run, self.left = run, left or []

    def __call__(self, home: Path, command: str) -> StandInBench:
        """Where a bench would be made."""
        self.home = home
        return self

    def close(self) -> list[str]:
        return self.left
