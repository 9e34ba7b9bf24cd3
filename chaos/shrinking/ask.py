"""Ask the simulator before real processes: thousands of its runs cost less than one of theirs.

It answers for the recovery protocol alone. A failure that it shows as well is shrunk there, and what is
left is tried on real processes first; a failure that it does not show lies in the script, in the
runtime's shell, or in timing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from chaos.errors import UserError
from chaos.plan import PlannedScenario
from chaos.simulation.real import from_real_plan
from chaos.simulation.run import SOUND, run_plan
from chaos.simulation.shrink import SCHEDULES, shrink
from chaos.simulation.world import Machines

MOST_RUNS = 600


@dataclass(frozen=True)
class Answer:
    """What the simulator says, in words; and the ids of the faults that matter, if it found out."""

    said: str
    kept: tuple[str, ...] = ()


def ask(scenario: PlannedScenario, machines: Machines = SOUND) -> Answer:
    """Simulate a scenario with some seeds; shrink it there if an invariant of the protocol breaks."""
    try:
        plan = from_real_plan(scenario)
    except UserError as error:
        return Answer(f"the simulator can't tell: {error.message}")
    for number in range(SCHEDULES):
        found = run_plan(replace(plan, seed=plan.seed + number), machines)
        if found.violation is not None:
            small = shrink(found, machines, most_runs=MOST_RUNS)
            kept = tuple(fault.id for fault in small.plan.faults)
            return Answer(f"the simulator fails too ({found.violation}), with {', '.join(kept)} alone", kept)
    return Answer(f"the simulator holds in {SCHEDULES} schedules: it is not the protocol alone")
