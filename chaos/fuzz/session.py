"""A search under way: draw, run, judge, keep, note. What runs a plan and what shrinks one is handed in.

Rules kept here:

- A failure counts once it was seen k times in n runs. One that was not is FLAKY. The reports of both stay.
- A failure that an earlier finding explains is not repeated and not shrunk; its plan is kept with that one.
- A plan that reached something new is kept in the corpus.
- A round is noted last: one that is cut off in the middle is run again when the search is resumed.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from chaos.fuzz import seen as seens
from chaos.fuzz.draw import Drawn, draw
from chaos.fuzz.log import Log
from chaos.fuzz.planned import reached
from chaos.fuzz.seen import Found, Round, Seen
from chaos.fuzz.space import Space
from chaos.plan import Plan
from chaos.report.stored import PLAN
from chaos.runner.interrupt import Interrupted
from chaos.runner.run import write
from chaos.shrinking.artefacts import file_name
from chaos.shrinking.failure import Outcome, failure_of
from chaos.testing.repeats import Category, Judged, Repeats, judge
from chaos.testing.result import Result

CORPUS, FINDINGS, ROUNDS = "corpus", "findings", "rounds"

Run = Callable[[Plan, Path], Result]
"""Runs a plan, its reports in a folder. Raises `Interrupted` if the user ends it."""


@dataclass(frozen=True)
class Shrunk:
    """What a shrinking came to: the names of the faults that are left, and how far it got, in words.

    `interrupted`: the user ended it; the smallest plan so far is kept.
    """

    faults: tuple[str, ...]
    said: str
    interrupted: bool = False


Shrink = Callable[[Judged, Path], Shrunk]
"""Makes a failing plan small; leaves ``plan.json`` and a test in a folder."""


@dataclass
class Search:
    """One search, from where its log ends.

    Args:
        space: what is drawn from.
        seed: of all draws.
        log: open; rounds are added to it.
        plan_of: makes a drawn round a plan.
        run: runs a plan.
        shrink: makes a failing plan small.
        repeats: when a failure counts.
        say: told one line a round.
        dropped: ids of findings that were dealt with: they explain nothing any more.
        held: a block that an interruption does not cut short.
    """

    space: Space
    seed: int
    log: Log
    plan_of: Callable[[Drawn], Plan]
    run: Run
    shrink: Shrink
    repeats: Repeats = field(default_factory=Repeats)
    say: Callable[[Round], None] = lambda one: None
    dropped: frozenset[str] = frozenset()
    held: Callable[[], AbstractContextManager[None]] = nullcontext
    seen: Seen = field(init=False)

    def __post_init__(self) -> None:
        self.seen = Seen.of(self.log.rounds)
        self.seen.found = [one for one in self.seen.found if one.id not in self.dropped]

    def go(self, may_go_on: Callable[[Seen], bool]) -> None:
        """Run rounds for as long as it may; asked before each."""
        while may_go_on(self.seen):
            self.one()

    def one(self) -> Round:
        """Draw and run one round.

        Raises:
            Interrupted: the user ended it. If its verdict was known by then, the round is noted.
        """
        began = time.monotonic()
        drawn = draw(self.space, self.seen, self.seed)
        plan = self.plan_of(drawn)
        folder = self.log.folder / ROUNDS / f"{drawn.number:04}"
        judged = self._judged(plan, folder)
        scenario = judged.result.scenarios[0]
        cells = reached(scenario)
        done = Round(
            number=drawn.number,
            job=drawn.job.name,
            cells=drawn.cells,
            reached=cells,
            new=self.seen.new_of(drawn.job.name, cells),
            category=str(judged.category),
            failures=judged.failures,
            runs=judged.runs,
            reason=scenario.reason,
            plan=plan.hash,
            untested=scenario.verdict == "ERROR",
        )
        with self.held():
            done, interrupted = self._kept(done, plan, judged)
            if done.category not in (seens.FAILED, seens.FLAKY):
                shutil.rmtree(folder, ignore_errors=True)
            done = replace(done, wall_s=round(time.monotonic() - began, 3))
            self.log.add(done)
            self.seen.add(done)
            self.say(done)
        if interrupted:
            raise Interrupted
        return done

    # -- what a plan came to

    def _judged(self, plan: Plan, folder: Path) -> Judged:
        """Run a plan: once if it holds, or if it fails as one before it did; else until it is known."""
        if folder.exists():  # of a search that was cut off in this round
            shutil.rmtree(folder)
        results: list[Result] = []

        def run() -> Result:
            results.append(self.run(plan, folder / f"run-{len(results) + 1}"))
            return results[-1]

        first = run()
        if first.verdict == "ERROR":
            # Nothing was tested: no step was made and no fault struck.
            return Judged(Category.INCONCLUSIVE, 0, 1, first)
        if first.verdict != "VIOLATED" or self._explained(first) is not None:
            return judge(lambda: first, Repeats(1, 1))
        ahead = iter([first])
        return judge(lambda: next(ahead, None) or run(), self.repeats)

    def _explained(self, result: Result) -> Found | None:
        scenario = result.scenarios[0]
        return self.seen.explained(Outcome.of(scenario).violated, (fault.name for fault in scenario.faults))

    def _kept(self, done: Round, plan: Plan, judged: Judged) -> tuple[Round, bool]:
        """Write what stays of a round; returns it as it is noted, and whether the user ended it."""
        home = self.log.folder
        if done.new:
            write(home / CORPUS / f"{done.number:04}.json", plan.to_json() + "\n")
        if done.category != seens.FAILED:
            return done, False
        known = self._explained(judged.result)
        if known is not None:
            write(home / FINDINGS / known.id / "again" / f"{done.number:04}.json", plan.to_json() + "\n")
            return replace(done, category=seens.KNOWN, again=known.id), False
        failure = failure_of(Outcome.of(judged.result.scenarios[0]))
        finding = f"{done.number:04}-{file_name(failure.invariant)}"
        folder = home / FINDINGS / finding
        if folder.exists():  # of a search that was cut off in this round
            shutil.rmtree(folder)
        write(folder / PLAN, plan.to_json() + "\n")
        small = self.shrink(judged, folder)
        found = Found(finding, failure.invariant, small.faults, small.said)
        return replace(done, found=found), small.interrupted
