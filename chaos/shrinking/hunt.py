"""One shrinking, from a scenario that fails to the smallest that was found. Decides, runs nothing. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from chaos.plan import PlannedScenario
from chaos.shrinking.failure import Failure, Outcome
from chaos.shrinking.smallest import driven, smallest
from chaos.shrinking.variants import Known, Variant, smaller, with_faults

Run = Callable[[PlannedScenario], Outcome]
Say = Callable[[Variant, bool], None]


@dataclass
class Hunt:
    """A shrinking under way. `best` is the smallest scenario so far that has failed.

    Attributes:
        run: runs a scenario and judges it. May raise to end the hunt: `best` stays.
        failure: what a smaller scenario must show, too.
        may_go_on: asked before each run.
        say: told of each variant that was tried, and whether it failed.
        tries: runs of a variant before it is taken for one that does not fail.
    """

    best: Variant
    known: Known
    run: Run
    failure: Failure
    may_go_on: Callable[[], bool] = lambda: True
    say: Say = lambda variant, failed: None
    tries: int = 1
    runs: int = field(default=0, init=False)
    finished: bool = field(default=False, init=False)

    def go(self, proposed: tuple[str, ...] = ()) -> Iterator[Variant]:
        """Shrink; yields each new best.

        Args:
            proposed: ids of the faults that are thought to matter; tried first.
        """
        if 0 < len(proposed) < len(self.best.scenario.faults):
            scenario = with_faults(self.best.scenario, proposed, self.known)
            if self._attempt(Variant(scenario, f"only {', '.join(proposed)}, as simulated")) is not None:
                yield self.best
        search = smallest(self.best, lambda one: smaller(one, self.known), lambda one: one.key)
        yield from driven(search, self._attempt, self.may_go_on)
        self.finished = self.may_go_on()

    def _attempt(self, variant: Variant) -> Variant | None:
        for _ in range(self.tries):
            if self._fails(variant):
                return variant
            if not self.may_go_on():
                break
        self.say(variant, False)
        return None

    def _fails(self, variant: Variant) -> bool:
        outcome = self.run(variant.scenario)
        self.runs += 1
        if not self.failure.shown_by(outcome):
            return False
        # A role may be another rank now that other faults are gone.
        self.known = replace(self.known, ranks=outcome.ranks)
        self.best = variant
        self.say(variant, True)
        return True
