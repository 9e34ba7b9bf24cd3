"""A finding made small on real processes, within its budget; `chaos.shrinking` does the work."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import UserError
from chaos.fuzz.seen import UNFINISHED
from chaos.fuzz.session import Shrunk
from chaos.runner.interrupt import Interrupted
from chaos.shrinking.ask import ask
from chaos.shrinking.failure import Outcome, failure_of
from chaos.shrinking.hunt import Hunt
from chaos.shrinking.kept import Kept
from chaos.shrinking.real import RealRuns
from chaos.shrinking.variants import Known, Variant
from chaos.testing.bench import Bench
from chaos.testing.repeats import Judged
from injectors.catalogue import CATALOGUE


@dataclass
class Shrinker:
    """Shrinks what a search finds.

    Args:
        bench: where the runs take place.
        budget_s: for one finding.
        until: end of the whole search, by the monotonic clock.
        stopped: whether the user wants it to end.
    """

    bench: Bench
    budget_s: float
    until: float
    stopped: Callable[[], bool]

    def __call__(self, judged: Judged, folder: Path) -> Shrunk:
        """Shrink the plan of a failing run; what is left of it is in the folder, however this ends."""
        result = judged.result
        (scenario,) = result.plan.scenarios
        outcome = Outcome.of(result.scenarios[0])
        runs = RealRuns(result.plan, self.bench, folder / "runs")
        runs.latest = result.folder
        kept = Kept(folder, result.plan, runs, failure_of(outcome), scenario)
        kept.keep(scenario)
        until = min(self.until, time.monotonic() + self.budget_s)
        # Where a failure comes and goes, one run that holds says nothing.
        tries = 1 if judged.failures == judged.runs else 2
        hunt = Hunt(
            Variant(scenario),
            Known.of(scenario, CATALOGUE, outcome.ranks),
            runs,
            kept.failure,
            lambda: time.monotonic() < until and not self.stopped(),
            kept.tried,
            tries,
        )
        said = ""
        try:
            for _ in hunt.go(ask(scenario).kept):
                pass
        except Interrupted:
            said = f"{UNFINISHED}: interrupted"
        except UserError as error:
            # A smaller job that this machine refuses is no reason to lose the finding.
            said = f"{UNFINISHED}: {error.message}"
        said = said or _said(hunt, time.monotonic() >= self.until)
        faults = tuple(fault.name for fault in kept.best.faults)
        return Shrunk(faults, said, said.endswith("interrupted") or self.stopped())


def _said(hunt: Hunt, over: bool) -> str:
    if hunt.finished:
        return f"nothing smaller fails, in {hunt.runs} runs"
    why = "the time" if over else "the budget"
    return f"{UNFINISHED}: {why} was up after {hunt.runs} runs"
