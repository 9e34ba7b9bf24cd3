"""What stands in for real runs in the tests of shrinking. None of these starts a process."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from chaos.plan import PlannedFault, PlannedScenario
from chaos.shrinking.failure import Outcome
from chaos.shrinking.hunt import Run
from chaos.simulation.real import from_real_plan
from chaos.simulation.run import run_plan
from chaos.simulation.world import Machines
from tests.chaos.shrinking.planned import scenario_of

INVARIANT = "replicas_agree"
KINDS = (
    *("process.kill", "process.kill", "process.stop", "process.exit", "process.exception"),
    *("collective.hang", "collective.error", "collective.skip"),
)
ROLES = ("lowest_live", "replacement", "transfer_source", "transfer_target")
EVENTS = tuple(f"recovery.{phase}" for phase in ("detect", "fence", "regroup", "transfer", "resume"))
SEEDS = 6


def fake_oracle(*needed: Callable[[PlannedFault], bool], least_world: int = 2) -> Run:
    """Pretends that a scenario fails if each condition is met by a fault of its own, on so many ranks."""

    def run(scenario: PlannedScenario) -> Outcome:
        left = list(scenario.faults)
        for condition in needed:
            met = next((fault for fault in left if condition(fault)), None)
            if met is None:
                return Outcome("PASS")
            left.remove(met)
        if scenario.target["world"] < least_world:
            return Outcome("PASS")
        ranks = {fault.id: fault.where.get("rank", 1) for fault in scenario.faults}
        return Outcome("VIOLATED", frozenset({INVARIANT, "state_equals_twin"}), f"{INVARIANT}: fake", ranks)

    return run


def simulated_oracle(machines: Machines, seeds: int = SEEDS) -> Run:
    """Runs a scenario in the simulator, on machines with a seeded bug, until one of some seeds fails."""

    def run(scenario: PlannedScenario) -> Outcome:
        plan = from_real_plan(scenario)
        for seed in range(seeds):
            violation = run_plan(replace(plan, seed=seed), machines).violation
            if violation is not None:
                return Outcome("VIOLATED", frozenset({violation.invariant}), str(violation))
        return Outcome("PASS")

    return run


def drawn(rng: random.Random) -> PlannedScenario:
    """A scenario of 4 to 8 faults, without any thought."""
    return scenario_of(
        [_fault(rng) for _ in range(rng.randint(4, 8))], {"steps": 16, "args": ["--steps", "16"]}
    )


def _fault(rng: random.Random) -> dict[str, Any]:
    role = rng.random() < 0.3
    in_recovery = rng.random() < 0.4
    return {
        "fault": rng.choice(KINDS),
        "where": {"role": rng.choice(ROLES)} if role else {"rank": rng.randrange(4)},
        "when": {"event": rng.choice(EVENTS)}
        if in_recovery
        else {"step": rng.randrange(3, 12), "phase": rng.choice(("forward", "backward", "optimizer"))},
    }


def failing(rng: random.Random, run: Run, most: int = 60) -> tuple[PlannedScenario, Outcome]:
    """The first drawn scenario that fails."""
    for _ in range(most):
        scenario = drawn(rng)
        outcome = run(scenario)
        if outcome.verdict == "VIOLATED":
            return scenario, outcome
    raise AssertionError(f"none of {most} drawn scenarios fails")
