"""Every seeded bug is found within its budget, and most shrink to a handful of faults."""

from __future__ import annotations

import pytest

from chaos.simulation import search
from chaos.simulation.run import run_plan
from chaos.simulation.shrink import shrink
from tests.chaos.simulation.mutants import Mutant, all_mutants, hunt

MUTANTS = all_mutants()

pytestmark = pytest.mark.slow


def test_there_are_at_least_twenty_for_one_node_and_twelve_for_several() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert sum(mutant.nodes == 1 for mutant in MUTANTS) >= 20
    assert sum(mutant.nodes == 0 for mutant in MUTANTS) >= 12


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_it_is_found_and_shrinks(mutant: Mutant) -> None:
    found, schedules = hunt(mutant, seed=1)
    assert found is not None, f"{mutant.name} survived {schedules} schedules"
    assert found.violation is not None
    small = shrink(found, mutant.machines, most_runs=400)
    assert small.violation is not None
    assert small.violation.invariant == found.violation.invariant
    assert len(small.plan.faults) <= 4
    again = run_plan(small.plan, mutant.machines)
    assert str(again.violation) == str(small.violation)


@pytest.mark.parametrize(("nodes", "schedules"), [(1, 200), (0, 100)])
def test_the_sound_protocol_survives_the_same_hunt(nodes: int, schedules: int) -> None:
    for number in range(3):
        tally = search.chunk(search.Options(seed=1, hostile=True, nodes=nodes), number, schedules)
        assert tally.found is None, tally.found
