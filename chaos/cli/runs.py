"""`run` and `replay`."""

from __future__ import annotations

import dataclasses
import shlex
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from chaos import report as reports
from chaos.cli import ci, diff
from chaos.compare import text
from chaos.compare.compare import Comparison, Limits
from chaos.compare.read import reports_at
from chaos.errors import Exit, Refused, UserError
from chaos.plan import Plan, make_plan, matches
from chaos.report.junit import Inconclusive, junit_of
from chaos.report.model import Report
from chaos.runner import facts
from chaos.runner.interrupt import Interrupted, Interrupts
from chaos.runner.run import Outcome, Run, read_plan
from chaos.runner.view import Format, View
from chaos.suite import find, load
from injectors.catalogue import CATALOGUE

REPORTS = Path("reports")
# Which exit code stands when several suites end differently, the weightiest first.
SEVERITY = (Exit.LEFTOVERS, Exit.INTERRUPTED, Exit.VIOLATED, Exit.INTERNAL, Exit.INCONCLUSIVE, Exit.PASSED)


@dataclass(frozen=True)
class Output:
    """Where and how a run reports.

    Attributes:
        inconclusive: what JUnit says of a scenario of which nothing could be proven.
        baseline: reports to compare with: a file, a run's folder, or a folder of runs.
        limits: when a difference from the baseline counts.
    """

    folder: Path | None
    form: Format
    junit: Path | None
    inconclusive: Inconclusive = "error"
    baseline: Path | None = None
    limits: Limits = field(default_factory=Limits)


def run_suites(names: list[str], seed: int | None, only: str | None, repeat: int, output: Output) -> int:
    """Run each suite; returns the exit code.

    Raises:
        UserError: something is wrong with one of the suites; then none is run.
    """
    plans = [plan_of(name, seed, only, repeat) for name in names]
    return run_all(plans, output, names)


def plan_of(name: str, seed: int | None, only: str | None, repeat: int) -> Plan:
    """The plan of one suite on this machine."""
    loaded = load(name, CATALOGUE)
    targets = list(loaded.targets)
    return make_plan(loaded, seed, facts.for_plan(find(name), targets), CATALOGUE, only=only, repeat=repeat)


def replay(path: Path, only: str | None, output: Output) -> int:
    """Run a stored plan; returns the exit code."""
    plan = read_plan(path)
    if plan.torch and plan.torch != facts.torch_version():
        print(
            f"torch-chaos: the plan was made with torch {plan.torch}, this is {facts.torch_version()}",
            file=sys.stderr,
        )
    if only is not None:
        kept = [scenario for scenario in plan.scenarios if matches(scenario.name, only)]
        if not kept:
            names = ", ".join(scenario.name for scenario in plan.scenarios)
            raise UserError(f"no scenario matches {only!r}", f"scenarios of the plan: {names}")
        plan = dataclasses.replace(plan, scenarios=kept)
    return run_all([plan], output)


def run_all(plans: list[Plan], output: Output, suites: list[str] | None = None) -> int:
    """Run plans one after the other; returns the exit code. `suites`: the files that they came from."""
    # Read before anything is broken: a wrong path must not cost a run.
    baseline = [one.report for one in reports_at(output.baseline)] if output.baseline is not None else []
    outcomes: list[Outcome] = []
    with Interrupts() as interrupts:
        try:
            for plan in plans:
                outcomes.append(_run_one(plan, _folder(plan, output, len(plans)), output, interrupts))
                if interrupts.seen is not None:
                    break
        except Interrupted:
            return int(Exit.INTERRUPTED)
        with interrupts.held():
            found = [outcome.report for outcome in outcomes]
            _write_all_junit(outcomes, output)
            compared = _compared(baseline, found, output) if interrupts.seen is None else []
            lines = [line for one in compared for line in text.lines_of(one)]
            ci.tell_github(found, suites or [], output.inconclusive, lines, to_stderr=output.form == "json")
    codes = {outcome.exit_code for outcome in outcomes} | {diff.code_of(one) for one in compared}
    return int(next((code for code in SEVERITY if code in codes), Exit.INTERNAL))


def _run_one(plan: Plan, folder: Path, output: Output, interrupts: Interrupts) -> Outcome:
    # Runs side by side in `reports/` share their twins; a folder that the user named is complete in itself.
    cache = folder.parent / "twins" if output.folder is None else None
    command = shlex.join(["torch-chaos", *sys.argv[1:]])
    with View(output.form, plan) as view:
        try:
            return Run(plan, folder, view, interrupts, cache, command).execute()
        except UserError:
            _remove_if_empty(folder)
            raise


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        pass


def _folder(plan: Plan, output: Output, plans: int) -> Path:
    if output.folder is not None:
        return output.folder if plans == 1 else output.folder / plan.suite
    base = REPORTS / f"{plan.suite}-{time.strftime('%Y%m%d-%H%M%S')}"
    number = 1
    while True:
        folder = base if number == 1 else base.with_name(f"{base.name}-{number}")
        try:
            # Made here and now: a run that starts in the same second takes the next name.
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            number += 1
        except OSError as error:
            raise Refused(
                f"{folder}: reports cannot be written here: {error.strerror}",
                "choose another folder with --report-dir",
            ) from None


def _compared(baseline: list[Report], found: list[dict[str, object]], output: Output) -> list[Comparison]:
    """The comparison with the baseline, if there is one."""
    return [diff.against(baseline, found, output.limits, output.form)] if baseline else []


def _write_all_junit(outcomes: list[Outcome], output: Output) -> None:
    """The file that was asked for; and each run's own again, where it must say something else."""
    if output.inconclusive != "error":
        for outcome in outcomes:
            reports.write_junit(outcome.report, outcome.folder / "junit.xml", output.inconclusive)
    if output.junit is not None:
        _write_junit([outcome.report for outcome in outcomes], output.junit, output.inconclusive)


def _write_junit(found: list[dict[str, object]], path: Path, inconclusive: Inconclusive) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        junit_of(found, inconclusive).write(str(path), pretty=True)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written: {error.strerror}", "choose another file with --junit"
        ) from None
