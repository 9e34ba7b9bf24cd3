"""Run one plan."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

from chaos.simulation.fleet import FleetWorld
from chaos.simulation.plan import SimPlan
from chaos.simulation.violation import Violation
from chaos.simulation.world import Machines, World

SOUND = Machines()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one run."""

    plan: SimPlan
    violation: Violation | None
    events: int
    code: int | None
    reason: str
    seen: frozenset[tuple[str, str, str]] = frozenset()
    history: tuple[dict[str, Any], ...] = ()

    def history_json(self) -> str:
        """The history as JSON lines."""
        return "".join(json.dumps(line, sort_keys=True) + "\n" for line in self.history)


def run_plan(
    plan: SimPlan, machines: Machines = SOUND, *, record: bool = False, coverage: bool = False
) -> Outcome:
    """Run a plan to its end, or to the first violation.

    Args:
        record: keep the history.
        coverage: keep which combinations of state, message and fault were met.
    """
    # A string seed: its hash is the same on every machine and in every Python.
    rng = random.Random(f"torch-chaos simulation {plan.seed}")
    violation: Violation | None = None
    world: World | None = None
    try:
        kind = World if plan.nodes == 1 else FleetWorld
        world = kind(plan, rng, machines, record=record)
        if coverage:
            world.seen = set()
        world.run()
    except Violation as found:
        violation = found
    ended = world.ended if world is not None else None
    return Outcome(
        plan=plan,
        violation=violation,
        events=world.events if world is not None else 0,
        code=ended.code if ended is not None else None,
        reason=ended.reason if ended is not None else "",
        seen=frozenset(world.seen or ()) if world is not None else frozenset(),
        history=tuple(world.log or ()) if world is not None else (),
    )
