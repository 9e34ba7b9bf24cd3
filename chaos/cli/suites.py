"""`validate`, `plan` and `schema`."""

from __future__ import annotations

import json
import sys
from typing import Literal

from chaos.cli.runs import plan_of
from chaos.errors import UserError
from chaos.plan import Plan, PlannedScenario
from chaos.runner.desk import moment
from chaos.runner.view import Format
from chaos.suite import SuiteError, load
from chaos.suite.durations import spelled
from injectors.catalogue import CATALOGUE


def validate(names: list[str]) -> None:
    """Check every suite before saying anything is wrong with the first.

    Raises:
        UserError: with the problems of all of them.
    """
    wrong: list[UserError] = []
    for name in names:
        try:
            loaded = load(name, CATALOGUE)
        except UserError as error:
            wrong.append(error)
            continue
        print(f"{loaded.file}: {len(loaded.suite.scenarios)} scenarios, no problem")
    if wrong:
        count = sum(len(error.problems) if isinstance(error, SuiteError) else 1 for error in wrong)
        print(*wrong, sep="\n", file=sys.stderr)
        raise UserError(f"{count} problems")


def plan(name: str, seed: int | None, only: str | None, repeat: int, form: Format) -> None:
    """Print a plan: for people, or the canonical JSON."""
    made = plan_of(name, seed, only, repeat)
    if form == "json":
        print(made.to_json())
        return
    print("\n".join(lines_of(made)))


def lines_of(made: Plan) -> list[str]:
    """A plan for people to read."""
    lines = [f"{made.suite}: seed {made.seed}, sha256 {made.hash}"]
    for scenario in made.scenarios:
        target = scenario.target
        what = target.get("workload") or target.get("file") or " ".join(target.get("argv", []))
        lines.append(f"{scenario.name}  [{target['kind']}: {what}, world {target['world']}]")
        for fault in scenario.faults:
            lines.append(f"    {fault.id} {fault.name}: {moment(fault)}{_lasting(fault.duration_s)}")
        if target["kind"] != "recovery":
            lines.append(f"    a step is {step_rule(scenario)}")
        lines.append(f"    expects {scenario.expect['verdict']}; twin {scenario.twin}")
    return lines


def step_rule(scenario: PlannedScenario) -> str:
    """What counts as a step in a script that was not written for us, in words."""
    step = scenario.target.get("step") or {}
    which = f"optimizer number {step['index']}" if step.get("index") else "the first optimizer that steps"
    match step.get("rule", "optimizer"):
        case "every_n":
            return f"every {step['n']} steps of {which}"
        case "stdout":
            return f"a line on stdout that matches {step['pattern']!r}"
        case _:
            return f"one step of {which} (updates left out by an AMP scaler included)"


def _lasting(duration_s: float | None) -> str:
    return "" if duration_s is None else f", for {spelled(duration_s)}"


def schema(what: Literal["suite", "report"]) -> None:
    """Print a JSON Schema."""
    if what == "report":
        from chaos import report as reports

        print(json.dumps(reports.schema(), indent=2))
    else:
        from chaos.suite.model import json_schema

        print(json.dumps(json_schema(), indent=2))
