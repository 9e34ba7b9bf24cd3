"""A whole run: every scenario of a plan, its twin before it, its verdict after it, and the reports.

Rules kept here:

- report.json is written anew after every scenario, so that a run that is cut off still has one.
- Whatever happens, the run is closed: faults taken back, processes ended, folders removed, journal closed.
- What could not be removed is said, and outranks every verdict.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos import report as reports
from chaos.attach.session import Session
from chaos.errors import Refused, TargetFailed, UserError
from chaos.history import History
from chaos.invariants.scene import ATTACHED
from chaos.judge import ScenarioVerdict, exit_code, judge
from chaos.plan import Plan, PlannedScenario
from chaos.report.pages import write_pages
from chaos.report.stored import HISTORY, PLAN, REPORT, TWINS
from chaos.runner import facts, preflight
from chaos.runner.context import Context
from chaos.runner.interrupt import Interrupted, Interrupts
from chaos.runner.scenario import Attempt
from chaos.runner.twins import Twins
from chaos.runner.view import View
from chaos.targets import paths
from chaos.targets.base import End, Setting, Target
from chaos.targets.make import make_target, sources_of
from injectors.catalogue import CATALOGUE


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    exit_code: int
    report: dict[str, object]
    folder: Path
    left: list[str]


@dataclass
class Run:
    """One run of one plan.

    Args:
        plan: what to do.
        folder: where reports go.
        view: told of everything as it happens.
        interrupts: the guard that the caller has installed.
        cache: folder of twins shared between runs, None for none.
        command: the command line, for the report.
        context: an open run to work in; it stays open. Without it the run has one of its own.
    """

    plan: Plan
    folder: Path
    view: View
    interrupts: Interrupts
    cache: Path | None = None
    command: str = ""
    context: Context | None = None
    results: list[ScenarioVerdict] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    errors: bool = False
    _environment: dict[str, object] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)

    def execute(self) -> Outcome:
        """Run the plan.

        Raises:
            UserError: before anything was started; nothing of the run is left then.
            Interrupted: never; an interruption ends the run with its reports written.
        """
        where = paths.folder_of(self.plan.folder)
        preflight.check(self.plan, where)
        self._environment = facts.environment(self.plan, self.command)
        sources = sources_of([scenario.target for scenario in self.plan.scenarios], where)
        context = self.context
        interrupted = False
        try:
            if context is None:
                with self.interrupts.held():
                    starts_jobs = any(s.target["kind"] != ATTACHED for s in self.plan.scenarios)
                    context = Context.open(self.folder, self._preload(), starts_jobs)
            write(self.folder / PLAN, self.plan.to_json() + "\n")
            self.view.began(self.plan, self.folder / PLAN, self.replay)
            twins = Twins(self.folder / TWINS, self.cache, sources)
            for scenario in self.plan.scenarios:
                self._one(context, scenario, where, twins)
        except Interrupted:
            interrupted = True
        finally:
            with self.interrupts.held():
                if context is not None and self.context is None:
                    self.left += context.close()
        # An interruption that came while the run was being closed counts as well.
        interrupted = interrupted or self.interrupts.seen is not None
        outcome = self._report(interrupted)
        self.view.ended(outcome.report, self.left)
        # Last: a page that cannot be drawn hides no verdict.
        write_pages(self.folder, CATALOGUE)
        return outcome

    @property
    def replay(self) -> str:
        """One line that does the same again."""
        return f"torch-chaos replay {self.folder / PLAN}"

    def _preload(self) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for scenario in self.plan.scenarios:
            found |= dict.fromkeys(scenario.target.get("preload") or ())
        return tuple(found)

    # -- one scenario

    def _one(self, context: Context, scenario: PlannedScenario, where: Path, twins: Twins) -> None:
        self.view.scenario(scenario.name, scenario.target.get("steps"))
        error: str | None = None
        reference: History | None = None
        history = History(())
        try:
            if scenario.target["kind"] == ATTACHED:
                history = self._attached(context, scenario)
            else:
                target = make_target(Setting(scenario.target, where, context.env), context.template)
                reference = twins.get(scenario, lambda folder: self._twin(context, scenario, target, folder))
                attempt = self._attempt(context, scenario, target, self.folder / scenario.name)
                history = History.load(attempt.run())
        except TargetFailed as failed:
            error = failed.message
        except Interrupted:
            # What there is of it is judged and reported; that the user ended it is said first.
            self._judged(scenario, self._partial(scenario), reference, "interrupted by the user")
            raise
        except Exception as problem:  # our own fault: said as such, and the other scenarios still run
            self.errors = True
            error = f"internal error: {problem!r}"
            write(self.folder / scenario.name / "internal-error.txt", traceback.format_exc())
        self._judged(scenario, history, reference, error)

    def _attached(self, context: Context, scenario: PlannedScenario) -> History:
        """A job that runs already has no start and no twin."""
        folder = self.folder / scenario.name
        session = Session(context, scenario, folder, self.interrupts, self.view.event, self.view.note)
        try:
            return History.load(session.run())
        except Refused as refused:  # it was there when the run began
            raise TargetFailed(refused.message, refused.mend) from None
        finally:
            self._environment["attached"] = session.facts

    def _partial(self, scenario: PlannedScenario) -> History:
        path = self.folder / scenario.name / HISTORY
        return History.load(path) if path.is_file() else History(())

    def _judged(
        self, scenario: PlannedScenario, history: History, reference: History | None, error: str | None
    ) -> None:
        verdict = judge(history, reference, scenario.to_dict(), error=error)
        self.results.append(verdict)
        self.view.verdict(verdict)
        self._write_report(self._build(interrupted=error == "interrupted by the user"))

    def _twin(
        self, context: Context, scenario: PlannedScenario, target: Target, folder: Path
    ) -> tuple[Path, End | None]:
        self.view.twin(scenario.name)
        twin = dataclasses.replace(scenario, faults=[])
        attempt = self._attempt(context, twin, target, folder, name=f"twin-{scenario.twin}")
        return attempt.run(), attempt.end

    def _attempt(
        self, context: Context, scenario: PlannedScenario, target: Target, folder: Path, name: str = ""
    ) -> Attempt:
        on_event: Callable[[dict[str, Any]], None] = (
            self.view.event if scenario.faults else lambda event: None
        )
        return Attempt(
            context,
            scenario,
            target,
            folder,
            scenario.faults,
            self.plan.seed,
            self.interrupts,
            on_event=on_event,
            name=name or scenario.name,
        )

    # -- reports

    def _report(self, interrupted: bool) -> Outcome:
        report = self._build(interrupted)
        self._write_report(report)
        reports.write_junit(report, self.folder / "junit.xml")
        code = report["exit_code"]
        assert isinstance(code, int)
        return Outcome(code, report, self.folder, self.left)

    def _build(self, interrupted: bool) -> dict[str, object]:
        code = exit_code(self.results, leftovers=bool(self.left), interrupted=interrupted, errors=self.errors)
        return reports.build(
            self.plan.to_dict(),
            self.results,
            {**self._environment, "left_over": self.left, "interrupted": interrupted},
            exit_code=code,
            wall_s=time.monotonic() - self._began,
            replay=self.replay,
            plan_hash=self.plan.hash,
        )

    def _write_report(self, report: dict[str, object]) -> None:
        write(self.folder / REPORT, json.dumps(report, indent=2, ensure_ascii=False) + "\n")


def write(path: Path, text: str) -> None:
    """Write a file in one go: it is the old one or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def read_plan(path: Path) -> Plan:
    """A stored plan.

    Raises:
        UserError: it cannot be read, or is not a plan.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}", "name a run's plan.json") from None
    except ValueError as error:
        raise UserError(f"{path}: not JSON: {error}", "name a run's plan.json") from None
    if not isinstance(data, dict):
        raise UserError(f"{path}: not a plan", "name a run's plan.json")
    return Plan.from_dict(data)
