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
        interrupted, refused = False, ""
        try:
            for _ in hunt.go(ask(scenario).kept):
                pass
        except Interrupted:
            interrupted = True
        except UserError as error:
            # A smaller job that this machine refuses is no reason to lose the finding.
            refused = error.message
        interrupted = interrupted or self.stopped()
        said = f"nothing smaller fails, in {hunt.runs} runs"
        if interrupted or refused:
            said = f"{UNFINISHED}: {refused or 'interrupted'}"
        elif not hunt.finished:
            what = "time" if time.monotonic() >= self.until else "budget"
            said = f"{UNFINISHED}: the {what} was up after {hunt.runs} runs"
        return Shrunk(tuple(fault.name for fault in kept.best.faults), said, interrupted)
