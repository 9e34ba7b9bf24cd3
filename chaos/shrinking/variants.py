"""Scenarios that are one change smaller than another. Pure.

Rules kept here:

- The greatest savings come first: faults, then ranks and steps, then moments, then how much and for how long.
- A variant is a scenario that a suite could have led to: every fault's place, moment and parameters are
  allowed.
- A fault that followed one that is gone takes the moment of that one.
- Each variant has a key that names its change. A change that was refused is not tried again, since every
  try is a run of real processes; so the result is small, but not proven to be the smallest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chaos.plan import PlannedFault, PlannedScenario
from chaos.shrinking.jobs import smaller_jobs
from chaos.shrinking.plainer import plainer
from injectors.fault import Fault


@dataclass(frozen=True)
class Variant:
    """A scenario and the change that led to it. `key` is equal for equal changes."""

    scenario: PlannedScenario
    change: str = "as it is"
    key: str = ""


@dataclass(frozen=True)
class Known:
    """What is known beside the plan.

    Attributes:
        catalogue: fault classes by id.
        ranks: the rank that each fault struck, by its id: what a role came to.
        stated: whether the scenario states a number of recoveries of its own, rather than one for each
            fault that calls for one.
    """

    catalogue: Mapping[str, type[Fault]]
    ranks: Mapping[str, int] = field(default_factory=dict)
    stated: bool = False

    @classmethod
    def of(
        cls, scenario: PlannedScenario, catalogue: Mapping[str, type[Fault]], ranks: Mapping[str, int]
    ) -> Known:
        """What is known of a scenario as it was planned."""
        return cls(catalogue, ranks, scenario.recoveries not in (None, calls_for(scenario.faults)))


def calls_for(faults: Sequence[PlannedFault]) -> int:
    """How many recoveries the faults call for, if each has one of its own."""
    return sum(fault.expects is not None for fault in faults)


def smaller(variant: Variant, known: Known) -> Iterator[Variant]:
    """Variants that are one change smaller, the greatest saving first. Their twin is not settled yet."""
    scenario = variant.scenario
    for kept in parts([fault.id for fault in scenario.faults]):
        yield Variant(
            with_faults(scenario, kept, known), f"only {', '.join(kept)}", f"faults {' '.join(kept)}"
        )
    for change, job in smaller_jobs(scenario):
        yield Variant(job, change, change)
    for position, fault in enumerate(scenario.faults):
        for change, simple in plainer(fault, known.catalogue[fault.name], known.ranks.get(fault.id)):
            faults = [*scenario.faults[:position], simple, *scenario.faults[position + 1 :]]
            said = f"{fault.id} {change}"
            yield Variant(replace(scenario, faults=faults), said, said)


def parts(ids: Sequence[str]) -> Iterator[list[str]]:
    """Which faults to keep: each half, then all but each quarter, all but each eighth, ... all but one.

    It is the order of delta debugging (Zeller and Hildebrandt, "Simplifying and isolating
    failure-inducing input", IEEE Transactions on Software Engineering 28, 2002). At least one fault is
    kept: without one there is no scenario, only the twin.
    """
    count = len(ids)
    if count < 2:
        return
    seen: set[tuple[str, ...]] = set()
    for kept in _all_parts(ids):
        if tuple(kept) not in seen:
            seen.add(tuple(kept))
            yield kept


def _all_parts(ids: Sequence[str]) -> Iterator[list[str]]:
    size = (len(ids) + 1) // 2
    yield list(ids[:size])
    yield list(ids[size:])
    while size > 1:
        size = (size + 1) // 2
        for start in range(0, len(ids), size):
            yield [*ids[:start], *ids[start + size :]]


def with_faults(scenario: PlannedScenario, kept: Sequence[str], known: Known) -> PlannedScenario:
    """The scenario with these faults alone, in their order."""
    by_id = {fault.id: fault for fault in scenario.faults}
    faults = [
        replace(fault, when=_own_moment(fault, by_id, kept)) for fault in scenario.faults if fault.id in kept
    ]
    return replace(scenario, faults=faults, recoveries=_recoveries(scenario, faults, known))


def _own_moment(
    fault: PlannedFault, by_id: Mapping[str, PlannedFault], kept: Sequence[str]
) -> dict[str, Any]:
    when = dict(fault.when)
    while "after_fault" in when and when["after_fault"] not in kept:
        after_s = when.get("after_s", 0.0)
        when = dict(by_id[when["after_fault"]].when)
        if "after_s" in when:
            when["after_s"] += after_s
    return when


def _recoveries(scenario: PlannedScenario, faults: Sequence[PlannedFault], known: Known) -> int | None:
    """The right number of recoveries for fewer faults; unknown where a stated one no longer says it."""
    if scenario.recoveries in (None, 0):
        return scenario.recoveries
    if known.stated:
        return scenario.recoveries if len(faults) == len(scenario.faults) else None
    return calls_for(faults)
