"""`@recovery_property`: Hypothesis draws plans, real runs judge them, and noise is not taken for a bug.

    @recovery_property(fault_plans(world=2, steps=12, faults=["process.kill"]))
    def test_training_recovers(steps): ...   # the training function itself

Rules kept here:

- A plan is drawn whole before anything is started, and is run in fresh processes.
- A failure must be seen k times in n runs before it counts; both are shown. One that is not is FLAKY: it
  stops no search, and fails the test in the end under its own name.
- A plan is judged once: what Hypothesis asks for again gets the answer that it got before.
- Shrinking has a budget: after it, plans not yet judged count as passed, so the smallest found is what is
  reported, and the report says so.
"""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

from chaos.errors import UserError
from chaos.plan import Plan
from chaos.report.stored import PLAN
from chaos.runner.run import write
from chaos.testing.calling import TRAINING
from chaos.testing.current import current, options
from chaos.testing.plans import FaultPlan
from chaos.testing.profiles import ALWAYS, PROFILES, Profile, register
from chaos.testing.program import SCRIPT
from chaos.testing.repeats import Category, Judged, Repeats, judge
from chaos.testing.result import Result
from chaos.testing.wanted import Wanted

FOUND = "found"
RECORD = "torch_chaos_search"
"""The attribute under which a property's test keeps its `Search`."""


class RecoveryFailed(AssertionError):
    """A plan whose runs failed often enough to be believed."""


class FlakyRecovery(AssertionError):
    """FLAKY: plans that failed, but not often enough: a race in the job, or a machine under load."""


class NothingTested(AssertionError):
    """Not one plan was conclusive."""


def recovery_property(
    plans: SearchStrategy[FaultPlan],
    *,
    repeats: Repeats | None = None,
    settings: settings | None = None,
    **keywords: Any,
) -> Callable[[Callable[..., object]], Callable[[], None]]:
    """Make a test of a training function: whatever plan is drawn, the job recovers from it.

    Args:
        plans: what is drawn: `chaos.strategies.fault_plans(...)`.
        repeats: when a failure counts; the profile's without it.
        settings: Hypothesis's; the profile's without it.
        keywords: of `torch_chaos.run`: `args`, `bounds`, `env`, `spares`.
    """
    wanted = Wanted.of("recovery_property", keywords)
    register()
    profile = PROFILES[options().profile]

    def decorate(training: Callable[..., object]) -> Callable[[], None]:
        search = Search(training, wanted, repeats or profile.repeats, profile.shrink_s)

        def plan_is_survived(plan: FaultPlan) -> None:
            __tracebackhide__ = True
            search.check(plan)

        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(plan_is_survived, name, getattr(training, name))
        made: Any = _settings(settings, profile)(given(plans)(plan_is_survived))
        setattr(made, TRAINING, training)
        setattr(made, RECORD, search)
        return made  # type: ignore[no-any-return]  # what given() returns is as it says

    return decorate


def _settings(asked: settings | None, profile: Profile) -> settings:
    return profile.settings() if asked is None else settings(asked, **ALWAYS)


@dataclass
class Search:
    """One property's search: every plan that was judged, and what is to be said of it."""

    training: Callable[..., object]
    wanted: Wanted
    repeats: Repeats
    shrink_s: float
    judged: dict[str, Judged] = field(default_factory=dict)
    flaky: list[tuple[FaultPlan, Judged]] = field(default_factory=list)
    cut_off: bool = False
    _failed_at: float | None = None
    _kept: Path | None = None

    def check(self, plan: FaultPlan) -> None:
        """Judge one plan.

        Raises:
            RecoveryFailed: it failed, k of n times.
            UserError: there is no pytest session to run it in.
        """
        __tracebackhide__ = True
        found = self.judged.get(plan.key)
        if found is None:
            if self._failed_at is not None and time.monotonic() - self._failed_at > self.shrink_s:
                self.cut_off = True
                return
            found = self._judge(plan)
        if found.category == Category.FAILED:
            raise RecoveryFailed(self._told(plan, found))

    def _judge(self, plan: FaultPlan) -> Judged:
        chaos = current().chaos
        if chaos is None:
            raise UserError("a recovery property needs the session of pytest", "run the file with pytest")
        asked = {"world": plan.world, "steps": plan.steps, "faults": plan.faults, "seed": plan.seed}
        given_too = {key: value for key, value in vars(self.wanted).items() if value is not None}
        found = judge(lambda: chaos.run(self.training, **{**given_too, **asked}), self.repeats)
        self.judged[plan.key] = found
        if found.category == Category.FLAKY:
            self.flaky.append((plan, found))
        if found.category == Category.FAILED and self._failed_at is None:
            self._failed_at = time.monotonic()
        return found

    def _told(self, drawn: FaultPlan, found: Judged) -> str:
        path = self._keep(drawn, found)
        cut = " (its budget ended before every smaller plan was tried)" if self.cut_off else ""
        return "\n".join(
            (
                f"{found} (counts from {self.repeats.k} of {self.repeats.n} on): {_what(found.result)}",
                f"the smallest plan that fails{cut}: {path}",
                f"run it again:  torch-chaos replay {path}",
                f"keep it:       @example(Plan.load({str(path)!r}))",
            )
        )

    def _keep(self, drawn: FaultPlan, found: Judged) -> Path:
        """Write the plan and its script where they stay, in place of a larger one that was written before."""
        chaos = current().chaos
        assert chaos is not None
        plan = found.result.plan
        folder = (chaos.options.report or Path("reports")).absolute() / FOUND
        folder /= f"{plan.suite}-{hashlib.sha256(drawn.key.encode()).hexdigest()[:8]}"
        if folder != self._kept:
            before, self._kept = self._kept, None if folder.exists() else folder
            store(plan, found.result.folder / SCRIPT, folder)
            if before is not None:
                shutil.rmtree(before)
        path = folder / PLAN
        return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path

    # -- the end

    def close(self) -> str:
        """The line for the summary.

        Raises:
            FlakyRecovery: some plans were flaky.
            NothingTested: no plan was conclusive.
        """
        counts = Counter(str(found.category) for found in self.judged.values())
        if self.flaky:
            raise FlakyRecovery("\n".join(["FLAKY", *(_flaky(*each) for each in self.flaky)]))
        if counts and set(counts) == {str(Category.INCONCLUSIVE)}:
            first = next(iter(self.judged.values())).result
            raise NothingTested(
                f"INCONCLUSIVE: {len(self.judged)} plans, and none that says anything: {first.reason}"
            )
        return self.summary

    @property
    def summary(self) -> str:
        """How many plans came to what."""
        counts = Counter(str(found.category) for found in self.judged.values())
        told = ", ".join(f"{count} {category}" for category, count in sorted(counts.items()))
        return f"{len(self.judged)} plans: {told or 'none'}"


def _what(result: Result) -> str:
    return f"{result.verdict} {result.reason}"


def _flaky(plan: FaultPlan, found: Judged) -> str:
    return f"{found}: {_what(found.result)}\n  {plan!r}\n  report: {found.result.folder}"


def store(plan: Plan, script: Path, folder: Path) -> None:
    """Write a plan, and the script that it runs, so that they can be run from there."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(script, folder / SCRIPT)
    write(folder / PLAN, dataclasses.replace(plan, folder=str(folder)).to_json() + "\n")
