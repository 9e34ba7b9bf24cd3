"""`plan`: what a suite and a seed resolve to."""

from __future__ import annotations

from chaos.cli.runs import plan_of
from chaos.plan import Plan, PlannedScenario
from chaos.runner.desk import moment
from chaos.runner.view import Format
from chaos.suite.durations import spelled


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
