"""`shrink`: a plan that fails, made small by running it."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chaos.cli import times
from chaos.errors import Exit, UserError
from chaos.invariants.scene import ATTACHED
from chaos.plan import Plan, PlannedScenario, matches
from chaos.report.stored import PLAN, REPORT, read_report
from chaos.runner.interrupt import Interrupted, Interrupts
from chaos.runner.run import read_plan
from chaos.shrinking.artefacts import file_name
from chaos.shrinking.ask import ask
from chaos.shrinking.failure import Failure, Outcome, failure_of
from chaos.shrinking.hunt import Hunt
from chaos.shrinking.kept import Kept
from chaos.shrinking.real import NotAgain, RealRuns, reproduced
from chaos.shrinking.variants import Known, Variant
from chaos.testing.bench import Bench
from injectors.catalogue import CATALOGUE

SHRUNK = Path("reports/shrunk")
FIRST_TRIES = 3
"""Runs in which the plan as it is must fail once: without that, no smaller one says anything."""


@dataclass(frozen=True)
class Wanted:
    """What to shrink and how long, as given on the command line."""

    source: Path
    only: str | None = None
    invariant: str | None = None
    budget: str = "10m"
    tries: int = 1
    out: Path | None = None


@dataclass(frozen=True)
class Chosen:
    """The scenario to shrink, and the failure that its report has shown; None if there is no report."""

    plan: Plan
    scenario: PlannedScenario
    failure: Failure | None


def shrink(wanted: Wanted) -> int:
    """Shrink; returns 0 if the smallest plan is written, 2 if the failure did not come again.

    Raises:
        UserError: there is no such plan, or it can't be run here.
    """
    until = time.monotonic() + times.seconds("--budget", wanted.budget, "10m")
    chosen = choose(wanted)
    folder = wanted.out or _free(SHRUNK / f"{file_name(chosen.plan.suite)}-{file_name(chosen.scenario.name)}")
    bench = Bench(folder / "work", shlex.join(["torch-chaos", *sys.argv[1:]]))
    code, left = Exit.PASSED, []
    with Interrupts() as interrupts:
        try:
            code = _hunted(
                chosen, wanted, RealRuns(chosen.plan, bench), folder, lambda: time.monotonic() < until
            )
        except Interrupted:
            print(f"interrupted; what there is, is in {folder}")
            code = Exit.INTERRUPTED
        finally:
            with interrupts.held():
                left = bench.close()
    for line in left:
        print(f"LEFT OVER: {line}")
    return int(Exit.LEFTOVERS if left else code)


def _hunted(
    chosen: Chosen, wanted: Wanted, run: RealRuns, folder: Path, may_go_on: Callable[[], bool]
) -> Exit:
    scenario = chosen.scenario
    print(
        f"{chosen.plan.suite}, {scenario.name}: {len(scenario.faults)} faults; shrinking into {folder}",
        flush=True,
    )
    try:
        outcome, count = reproduced(run, scenario, chosen.failure, max(FIRST_TRIES, wanted.tries))
    except NotAgain as error:
        print(f"torch-chaos: {error}", file=sys.stderr)
        return Exit.INCONCLUSIVE
    failure = chosen.failure or failure_of(outcome, wanted.invariant)
    kept = Kept(folder, chosen.plan, run, failure, scenario)
    kept.keep(scenario)
    print(f"it fails as it is, in run {count}: {outcome.reason}")
    answer = ask(scenario)
    print(answer.said, flush=True)
    known = Known.of(scenario, CATALOGUE, outcome.ranks)
    hunt = Hunt(Variant(scenario), known, run, failure, may_go_on, kept.tried, wanted.tries)
    for _ in hunt.go(answer.kept):
        pass
    print("nothing smaller fails" if hunt.finished else f"the budget of {wanted.budget} is used up")
    print(_again(run, kept))
    print("\n".join(kept.lines()))
    return Exit.PASSED


def _again(run: RealRuns, kept: Kept) -> str:
    """Whether the smallest plan fails once more, in words."""
    fails = kept.failure.shown_by(run(kept.best))
    run.forget_all_but(kept.evidence)
    return "run once more, it fails again" if fails else "run once more, it HOLDS: the failure comes and goes"


def choose(wanted: Wanted) -> Chosen:
    """What to shrink: of a report the scenario that violates something, of a plan the one that is named.

    Raises:
        UserError: there is none, or more than one and none is named.
    """
    source = wanted.source
    folder = source if source.is_dir() else source.parent
    plan = read_plan(source if source.name != REPORT and not source.is_dir() else folder / PLAN)
    named = [one for one in plan.scenarios if wanted.only is None or matches(one.name, wanted.only)]
    if not named:
        names = ", ".join(one.name for one in plan.scenarios)
        raise UserError(f"no scenario matches {wanted.only!r}", f"scenarios of the plan: {names}")
    outcomes = _seen(folder / REPORT)
    failed = [one for one in named if one.name in outcomes and outcomes[one.name].verdict == "VIOLATED"]
    candidates = failed or named
    if len(candidates) > 1 and not (failed and wanted.only is None):
        names = ", ".join(one.name for one in candidates)
        raise UserError(f"{len(candidates)} scenarios could be meant: {names}", "name one with --only")
    scenario = candidates[0]
    if scenario.target["kind"] == ATTACHED:
        raise UserError(
            f"{scenario.name} struck a job that the tool had not started: no smaller plan of it can be run",
            "shrink a plan whose target the tool starts; `torch-chaos init` makes one of a script",
        )
    if scenario.name not in outcomes:
        return Chosen(plan, scenario, Failure(wanted.invariant) if wanted.invariant is not None else None)
    return Chosen(plan, scenario, failure_of(outcomes[scenario.name], wanted.invariant))


def _seen(report: Path) -> dict[str, Outcome]:
    """What the report beside the plan says of each scenario; nothing where there is none."""
    if not report.is_file():
        return {}
    return {one.name: Outcome.of(one) for one in read_report(report).scenarios}


def _free(base: Path) -> Path:
    """A folder that is not there yet."""
    number = 1
    while (folder := base if number == 1 else base.with_name(f"{base.name}-{number}")).exists():
        number += 1
    return folder
