"""The steering, with data alone."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest

from chaos.fuzz.asked import Asked
from chaos.fuzz.draw import APART, Drawn, draw, steered
from chaos.fuzz.planned import plan_of
from chaos.fuzz.seen import Seen
from chaos.fuzz.space import ANOTHER_RANK, RANK_0, Aim, Space
from chaos.plan import Draws
from chaos.report.coverage import Cell, cell_of
from chaos.suite.find import shipped
from injectors.catalogue import CATALOGUE
from tests.chaos.fuzz.spaces import FACTS, SMALL, as_round, rounds, space

PROCESS = ("process.kill", "process.stop", "process.exit", "process.exception")
MORE = Asked(PROCESS, ("commit", "recovery"), 4)


def drawn(of: Space, count: int, seed: int = 7, seen: Seen | None = None) -> list[Drawn]:
    return rounds(partial(draw, of, seed=seed), count, seen if seen is not None else Seen())


def test_the_same_seed_draws_the_same_and_another_draws_others() -> None:
    of = space(asked=MORE)
    assert drawn(of, 30) == drawn(of, 30)
    assert [one.entries for one in drawn(of, 30)] != [one.entries for one in drawn(of, 30, seed=8)]


def test_resumed_it_draws_what_it_would_have_drawn() -> None:
    of = space(asked=MORE)
    whole = Seen()
    plans = drawn(of, 40, seen=whole)
    log = []
    first = Seen()
    for one in drawn(of, 17):
        log.append(as_round(one, first))
        first.add(log[-1])
    assert [*drawn(of, 17), *drawn(of, 23, seen=Seen.of(log))] == plans


def test_every_cell_is_met_before_one_is_met_for_its_own_sake_again() -> None:
    of = space()
    seen = Seen()
    leads = []
    while len(seen.reached) < len(of.aims):
        one = draw(of, seen, 3)
        fresh = [cell for cell in one.cells if not seen.reached[Aim(one.job.name, cell)]]
        leads.append(fresh)
        seen.add(as_round(one, seen))
        assert len(leads) <= len(of.aims)
    assert all(leads), "each round was steered to something new"


def test_a_cell_that_is_never_reached_does_not_hold_the_search_up() -> None:
    of = space()
    seen = Seen()
    rounds(partial(draw, of, seed=3), 60, seen, lambda cell: cell.role != "transfer_source")
    lost = Aim("tiny_gpt", Cell("process.kill", "transfer", "transfer_source"))
    assert seen.in_vain(lost)
    assert seen.tries[lost] <= 3
    assert all(seen.reached[aim] for aim in of.aims if aim != lost)


def test_what_nobody_reached_comes_first_and_the_least_tried_of_it() -> None:
    aims = [Aim("job", Cell("process.kill", phase, RANK_0)) for phase in ("forward", "backward", "commit")]
    seen = Seen()
    seen.reached[aims[0]] = 1
    seen.tries.update({aims[0]: 1, aims[1]: 1})
    for seed in range(20):
        assert steered(aims, seen, Draws(seed), "x") == aims[2]
    seen.reached[aims[2]] = 5
    assert steered(aims, seen, Draws(0), "x") == aims[1]
    seen.vain[aims[1]] = 2
    assert steered(aims, seen, Draws(0), "x") == aims[0], (
        "the least reached, before one that was tried in vain"
    )


def test_a_fault_in_a_recovery_has_a_loss_before_it_on_another_rank() -> None:
    during = [one for one in drawn(space(asked=MORE), 80) if any("event" in e["when"] for e in one.entries)]
    assert len(during) > 10
    for one in during:
        first, second, *rest = one.entries
        assert "step" in first["when"]
        assert "event" in second["when"]
        assert second["where"] != first["where"]
        assert not any("event" in entry["when"] for entry in rest), "one at most strikes in a recovery"


def test_losses_lie_steps_apart_and_inside_the_job() -> None:
    for one in drawn(space(asked=MORE), 80):
        steps = [entry["when"]["step"] for entry in one.entries if "step" in entry["when"]]
        assert all(later - earlier >= APART for earlier, later in pairwise(steps))
        assert all(1 <= step <= 26 for step in steps)
        assert 1 <= len(one.entries) <= 4


def test_a_plan_of_the_corpus_is_taken_up_again() -> None:
    of = space(asked=Asked(PROCESS, ("commit",), 3))
    seen = Seen()
    plans = rounds(partial(draw, of, seed=1), 60, seen)
    known = [set(one.cells) for one in seen.corpus]
    again = [
        one
        for one in plans
        if len(one.cells) > 1 and any(set(one.cells[1:]) <= cells for cells in known if len(cells) > 1)
    ]
    assert again


def test_what_slows_a_job_down_is_drawn_alone() -> None:
    asked = Asked(("host.cpu_throttle", "collective.delay"), most=4)
    for one in drawn(space(asked=asked), 60):
        if {cell.fault for cell in one.cells} & set(asked.faults):
            assert len(one.cells) == 1


def test_a_job_too_short_for_two_faults_gets_one() -> None:
    short = SMALL.replace("steps: 30", "steps: 5").replace('"30"', '"5"').replace("step: 12", "step: 2")
    for one in drawn(space(short.replace("step: 6", "step: 2"), Asked(most=4)), 40):
        assert sum("step" in entry["when"] for entry in one.entries) == 1


def test_another_rank_is_never_rank_0() -> None:
    for one in drawn(space(), 60):
        for cell, entry in zip(one.cells, one.entries, strict=True):
            if cell.role in (RANK_0, ANOTHER_RANK):
                assert (entry["where"]["rank"] == 0) == (cell.role == RANK_0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["smoke", "recovery_under_fire", "nodes", "network", "storage", "host"])
def test_what_is_drawn_is_a_sound_plan_of_the_cells_that_it_names(name: str) -> None:
    of = space(shipped()[name].read_text(encoding="utf-8"))
    for one in drawn(of, 40):
        plan = plan_of(of.suite, 7, one, FACTS, CATALOGUE)
        (scenario,) = plan.scenarios
        assert [cell_of(fault.name, fault.where, fault.when) for fault in scenario.faults] == [*one.cells]
        assert scenario.target == one.job.target
        assert scenario.recoveries == (0 if one.job.quiet else scenario.recoveries)
