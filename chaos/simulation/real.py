"""From simulated plans to suites for real processes, and from planned real scenarios to simulated plans.

What both sides share is the vocabulary; what only one side has is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chaos.errors import UserError
from chaos.plan import Facts, Plan, PlannedScenario, make_plan
from chaos.simulation.plan import REAL, SIMULATED_ONLY, SimFault, SimPlan
from chaos.simulation.striking import ALIASES, JOB_POINTS, PHASE_POINTS, WORKER_POINTS
from chaos.suite import durations
from chaos.suite.load import load_text
from injectors.fault import Fault

# Faults of the simulator that a suite can place on one node's processes today.
PLACEABLE = frozenset(name for name in REAL if name.startswith(("process.", "collective.", "numeric.")))
ROLES = ("lowest_live", "transfer_source", "transfer_target", "replacement", "detected")
MORE_STEPS = 20
"""Real jobs run longer: their first steps are slow, and a recovery needs steps to be seen."""


def to_suite(plans: Sequence[SimPlan], name: str = "simulated") -> dict[str, Any]:
    """A suite, as data, with one scenario for each plan.

    Raises:
        UserError: a fault exists in the simulator only.
    """
    return {
        "suite": name,
        "description": "Schedules from the simulator, on real processes.",
        "seed": 1,
        "defaults": {
            "target": {"kind": "recovery", "workload": "tiny_gpt"},
            "bounds": {"detect": "2s", "recover": "10s", "run": "90s"},
        },
        "scenarios": [_scenario(plan, f"plan_{number + 1}") for number, plan in enumerate(plans)],
    }


def to_real_plan(plans: Sequence[SimPlan], facts: Facts, catalogue: Mapping[str, type[Fault]]) -> Plan:
    """What `torch-chaos replay` takes.

    Raises:
        UserError: a fault can't be placed on real processes.
    """
    import json

    loaded = load_text(json.dumps(to_suite(plans)), "simulated plans", catalogue)
    return make_plan(loaded, None, facts, catalogue)


def _scenario(plan: SimPlan, name: str) -> dict[str, Any]:
    steps = plan.steps + MORE_STEPS
    return {
        "name": name,
        "target": {
            "world": plan.world,
            "spares": plan.spares,
            "steps": steps,
            "args": ["--steps", str(steps)],
        },
        "faults": [_entry(fault) for fault in plan.faults],
    }


def _entry(fault: SimFault) -> dict[str, Any]:
    if fault.name not in PLACEABLE:
        why = SIMULATED_ONLY.get(fault.name, "it needs a cluster of nodes")
        raise UserError(f"{fault.name} can't be placed on one node's processes: {why}", "leave it out")
    role = fault.where.get("role")
    if role is not None and role not in ROLES:
        raise UserError(f"the role {role!r} exists in the simulator only", f"one of {', '.join(ROLES)}")
    entry: dict[str, Any] = {
        "id": fault.id,
        "fault": fault.name,
        "where": dict(fault.where),
        "when": dict(fault.when),
    }
    if fault.duration_s is not None and fault.name != "process.kill":
        entry["for"] = durations.spelled(fault.duration_s)
    return entry


def from_real_plan(scenario: PlannedScenario) -> SimPlan:
    """The same faults in the simulator.

    Raises:
        UserError: the scenario's target or one of its faults has no counterpart there.
    """
    if scenario.target.get("kind") != "recovery":
        raise UserError(
            f"{scenario.name}: a {scenario.target.get('kind')} target has no state machines of ours",
            "only recovery targets are simulated",
        )
    return SimPlan(
        seed=scenario.seed,
        world=int(scenario.target["world"]),
        spares=int(scenario.target.get("spares") or 0),
        steps=int(scenario.target["steps"]),
        faults=tuple(_simulated(scenario, fault.id) for fault in scenario.faults),
    )


def _simulated(scenario: PlannedScenario, fault_id: str) -> SimFault:
    fault = next(one for one in scenario.faults if one.id == fault_id)
    if fault.name not in REAL:
        raise UserError(f"{scenario.name}: the simulator has no {fault.name}", f"one of {', '.join(REAL)}")
    when = dict(fault.when)
    event, phase = when.get("event"), when.get("phase")
    points = (*WORKER_POINTS, *JOB_POINTS, *ALIASES)
    known_phase = phase is None or phase in PHASE_POINTS
    if "collective" in when or not known_phase or (event is not None and event not in points):
        raise UserError(f"{scenario.name}: {fault.name} comes at a point that is not simulated: {when}", "")
    if "after_s" in when and not {"event", "after_fault"} & set(when):
        raise UserError(f"{scenario.name}: {fault.name} comes at a time, which differs between the two", "")
    duration_s = fault.duration_s
    return SimFault(fault.id, fault.name, dict(fault.where), when, duration_s, {})


def outline(events: Iterable[Mapping[str, Any]]) -> list[tuple[int, tuple[int, ...]]]:
    """What is comparable between a simulated and a real history: each generation and whose process is new.

    Who else adopts is a matter of microseconds: a survivor may or may not be one step behind.
    """
    found: list[tuple[int, tuple[int, ...]]] = []
    before: dict[int, int] = {}
    for event in events:
        if event.get("event") == "generation.open":
            now = dict(_owner(member) for member in event["members"])
            new = tuple(rank for rank, process in sorted(now.items()) if before.get(rank) != process)
            found.append((int(event["generation"]), new))
            before = now
    return found


def _owner(member: Any) -> tuple[int, int]:
    """A member's rank and process, as either side writes it."""
    if isinstance(member, Mapping):
        return int(member["rank"]), int(member["pid"])
    return int(member[0]), int(member[1])


def committed_steps(events: Iterable[Mapping[str, Any]]) -> list[int]:
    """Every step that some rank committed, once, ascending."""
    return sorted({int(event["step"]) for event in events if event.get("event") == "step.commit"})
