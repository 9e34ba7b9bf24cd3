"""Make a failing plan small: fewer faults, fewer ranks, plainer moments, the same violation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from chaos.shrinking.smallest import driven, smallest
from chaos.simulation.plan import SimFault, SimPlan
from chaos.simulation.run import SOUND, Outcome, run_plan
from chaos.simulation.world import Machines

SCHEDULES = 12
"""Seeds tried for each smaller plan: with a fault less, the draws that follow it are others."""


def shrink(found: Outcome, machines: Machines = SOUND, *, most_runs: int = 3000) -> Outcome:
    """The smallest outcome with the same violated invariant that was met within `most_runs` runs.

    Raises:
        ValueError: the outcome has no violation.
    """
    if found.violation is None:
        raise ValueError("nothing is violated: there is nothing to shrink")
    best, runs, invariant = found, 0, found.violation.invariant

    def attempt(smaller: SimPlan) -> SimPlan | None:
        nonlocal best, runs
        outcome, used = _fails(smaller, invariant, machines)
        runs += used
        if outcome is None:
            return None
        best = outcome
        return outcome.plan

    for _ in driven(smallest(found.plan, _smaller), attempt, lambda: runs < most_runs):
        pass
    return best


def _fails(plan: SimPlan, invariant: str, machines: Machines) -> tuple[Outcome | None, int]:
    for number in range(SCHEDULES):
        seed = plan.seed if number == 0 else plan.seed % 1_000_000 * 100 + number
        outcome = run_plan(replace(plan, seed=seed), machines)
        if outcome.violation is not None and outcome.violation.invariant == invariant:
            return outcome, number + 1
    return None, SCHEDULES


def _smaller(plan: SimPlan) -> Iterator[SimPlan]:
    """Plans that are one thing plainer, the greatest savings first."""
    faults = plan.faults
    if len(faults) > 2:
        yield replace(plan, faults=_mended(faults[: len(faults) // 2]))
        yield replace(plan, faults=_mended(faults[len(faults) // 2 :]))
    for position in range(len(faults)):
        yield replace(plan, faults=_mended(faults[:position] + faults[position + 1 :]))
    for world in (2, 3, 4):
        if world < plan.world:
            fitting = tuple(_within(fault, world) for fault in faults)
            yield replace(plan, world=world, faults=fitting)
    if plan.schedule != "uniform":
        yield replace(plan, schedule="uniform", changes=0)
    if plan.limits:
        yield replace(plan, limits={})
    for spares in (0, 1):
        if spares < plan.spares:
            yield replace(plan, spares=spares)
    for steps in (2, 4, 6):
        if steps < plan.steps:
            yield replace(plan, steps=steps)
    if plan.collectives > 1:
        yield replace(plan, collectives=1)
    for position, fault in enumerate(faults):
        for plainer in _plainer(fault):
            yield replace(plan, faults=(*faults[:position], plainer, *faults[position + 1 :]))


def _mended(faults: tuple[SimFault, ...]) -> tuple[SimFault, ...]:
    """Faults that followed one that is gone come at a time of their own."""
    ids = {fault.id for fault in faults}
    return tuple(
        replace(fault, when={"after_s": 0.5 + fault.when.get("after_s", 0.0)})
        if fault.when.get("after_fault", fault.id) not in ids
        else fault
        for fault in faults
    )


def _within(fault: SimFault, world: int) -> SimFault:
    rank = fault.where.get("rank")
    return fault if rank is None or rank < world else replace(fault, where={"rank": rank % world})


def _plainer(fault: SimFault) -> Iterator[SimFault]:
    if "role" in fault.where and fault.where["role"] not in ("spare", "template"):
        for rank in (1, 0, 2):
            yield replace(fault, where={"rank": rank})
    if fault.when.get("occurrence", 1) > 1:
        yield replace(fault, when={**fault.when, "occurrence": 1})
    if "event" in fault.when and "after_s" in fault.when:
        yield replace(fault, when={key: value for key, value in fault.when.items() if key != "after_s"})
    if fault.name in ("process.stop", "collective.hang") and fault.duration_s is not None:
        yield replace(fault, duration_s=None)
