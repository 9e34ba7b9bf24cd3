"""The world itself: the same plan gives the same history, and what was found once stays mended."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.errors import UserError
from chaos.simulation import search
from chaos.simulation.generate import HOSTILE, WEIGHTS, make_fault
from chaos.simulation.plan import NAMES, NETWORK, SimFault, SimPlan
from chaos.simulation.run import run_plan
from chaos.simulation.striking import _STRIKES
from chaos.simulation.violation import Violation
from tests.chaos.simulation.fleet_mutants import BY_PLAN
from tests.chaos.simulation.mutants import all_mutants

PLANS = Path(__file__).parent / "plans"
SOUND_PLANS = Path(__file__).parent / "sound_plans"
BY_NAME = {mutant.name: mutant for mutant in (*all_mutants(), *BY_PLAN)}
KILL = SimFault("f1", "process.kill", {"rank": 2}, {"step": 3, "phase": "backward"})


def test_an_undisturbed_job_commits_every_step_on_every_rank() -> None:
    outcome = run_plan(SimPlan(seed=1), record=True)
    assert (outcome.violation, outcome.code) == (None, 0)
    commits = [(e["rank"], e["step"]) for e in outcome.history if e["event"] == "step.commit"]
    assert sorted(commits) == [(rank, step) for rank in range(4) for step in range(8)]
    assert [e for e in outcome.history if e["event"] == "recovery.done"] == []


def test_the_same_seed_gives_the_same_history_byte_for_byte() -> None:
    plan = SimPlan(seed=5, faults=(KILL,))
    assert run_plan(plan, record=True).history_json() == run_plan(plan, record=True).history_json()
    other = run_plan(replace(plan, seed=6), record=True)
    assert other.history_json() != run_plan(plan, record=True).history_json()


def test_chunks_do_not_depend_on_who_runs_them() -> None:
    options = search.Options(seed=3)
    alone, again = search.chunk(options, 3, 12), search.chunk(options, 3, 12)
    assert (alone.events, alone.seen, alone.ends) == (again.events, again.seen, again.ends)


def test_a_kill_is_healed_by_the_spare() -> None:
    outcome = run_plan(SimPlan(seed=2, faults=(KILL,)), record=True)
    assert outcome.code == 0
    (done,) = [e for e in outcome.history if e["event"] == "recovery.done"]
    assert done["causes"] == [[2, "crash"]]
    openings = [e for e in outcome.history if e["event"] == "generation.open"]
    assert [(e["generation"], e["receivers"]) for e in openings] == [(1, []), (2, [2])]


def test_every_fault_is_known_everywhere() -> None:
    assert set(_STRIKES) == set(NAMES) == {*WEIGHTS, *HOSTILE}
    assert set(HOSTILE) == set(NETWORK)


@pytest.mark.parametrize("name", NAMES)
def test_no_single_fault_breaks_a_rule(name: str) -> None:
    import random

    for seed in range(12):
        fault = make_fault(random.Random(seed), "f1", name, 4, 8, 0)
        outcome = run_plan(SimPlan(seed=seed, faults=(fault,)))
        assert outcome.violation is None, (fault, outcome.violation)


def test_a_plan_survives_its_file() -> None:
    plan = SimPlan(seed=9, faults=(KILL,), limits={"max_restarts": 2})
    assert SimPlan.from_dict(json.loads(plan.to_json())) == plan


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "not a simulated plan"),
        ({"faults": [{"id": "f1"}]}, "the plan is damaged"),
        (
            {"faults": [{"id": "f1", "name": "process.sing", "where": {}, "when": {}}]},
            "no fault 'process.sing'",
        ),
        ({"limits": {"patience_s": 1}}, "the plan is damaged"),
    ],
)
def test_a_bad_plan_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        SimPlan.from_dict({**SimPlan(seed=1).to_dict(), **change})


@pytest.mark.parametrize("path", sorted(PLANS.glob("*.json")), ids=lambda path: path.stem)
def test_what_the_simulation_found_once_stays_mended(path: Path) -> None:
    """Each plan names the seeded bug that brings the old behaviour back: with it the plan fails."""
    data = json.loads(path.read_text(encoding="utf-8"))
    plan = SimPlan.from_dict(data)
    assert run_plan(plan).violation is None
    broken = run_plan(plan, BY_NAME[data["regression_of"]].machines)
    assert broken.violation is not None
    assert broken.violation.invariant == data["invariant"]


@pytest.mark.parametrize("path", sorted(SOUND_PLANS.glob("*.json")), ids=lambda path: path.stem)
def test_what_a_check_once_took_for_a_violation_is_none(path: Path) -> None:
    plan = SimPlan.from_dict(json.loads(path.read_text(encoding="utf-8")))
    assert run_plan(plan).violation is None


def test_a_violation_that_another_process_found_can_be_told_here() -> None:
    """The search's processes hand it over; one that could not be read would leave the search waiting."""
    found = Violation("an_invariant", "what broke it")
    copy = pickle.loads(pickle.dumps(found))
    assert (copy.invariant, copy.detail, str(copy)) == ("an_invariant", "what broke it", str(found))
