"""Drawn plans are data that can be stored, found again and printed as code."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings

from chaos.errors import UserError
from chaos.plan import Facts, Plan, make_plan
from chaos.strategies import APART, fault_plans
from chaos.suite import load_text
from chaos.testing import Plan as PublicPlan
from chaos.testing.plans import FaultPlan
from chaos.testing.wanted import Wanted, suite_of
from injectors.catalogue import CATALOGUE

FEW = settings(max_examples=40, deadline=None, derandomize=True, database=None)
EVERY_PROCESS_FAULT = [name for name, fault in CATALOGUE.items() if fault.aims_at == "process"]


def planned(plan: FaultPlan) -> Plan:
    """As the engine plans it; passes every check of a suite file."""
    wanted = Wanted(world=plan.world, steps=plan.steps, faults=plan.faults, seed=plan.seed)
    suite = suite_of(wanted, "drawn", {"kind": "recovery", "workload": "x.py"})
    loaded = load_text(json.dumps(suite), "drawn", CATALOGUE)
    return make_plan(loaded, plan.seed, Facts("", {}, "/"), CATALOGUE)


@FEW
@given(fault_plans(world=3, steps=15, phases=("forward", "backward", "transfer", "fence")))
def test_a_drawn_plan_is_complete_and_fair(plan: FaultPlan) -> None:
    assert 1 <= len(plan.faults) <= 3
    steps = [fault["when"]["step"] for fault in plan.faults if "step" in fault["when"]]
    assert all(later - before >= APART for before, later in pairwise(steps))
    assert all(1 <= step <= 13 for step in steps)
    made = planned(plan)
    # Nothing was left to draw: what is planned is what was drawn.
    assert [fault.where for fault in made.scenarios[0].faults] == [fault["where"] for fault in plan.faults]
    assert [fault.when for fault in made.scenarios[0].faults] == [fault["when"] for fault in plan.faults]
    assert "step" in plan.faults[0]["when"], "nothing recovers before the first fault"


@FEW
@given(fault_plans(faults=EVERY_PROCESS_FAULT, world=2))
def test_every_fault_of_a_process_can_be_drawn_and_found_again(plan: FaultPlan) -> None:
    made = planned(plan)
    again = FaultPlan.of(made)
    assert planned(again) == made
    assert FaultPlan.of(planned(again)) == again


@FEW
@given(fault_plans())
def test_its_repr_is_the_code_that_makes_it(plan: FaultPlan) -> None:
    again = eval(repr(plan), {"FaultPlan": FaultPlan})
    assert again == plan
    assert hash(again) == hash(plan)


def test_a_stored_plan_is_loaded(tmp_path: Path) -> None:
    plan = FaultPlan(
        2, 12, ({"fault": "process.kill", "where": {"rank": 1}, "when": {"step": 4}, "id": "f1"},), 5
    )
    path = tmp_path / "plan.json"
    path.write_text(planned(plan).to_json())
    assert PublicPlan.load(path) == plan


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not a plan: Expecting property name"),
        ("[]", "not a plan of version 1"),
        (Plan("s", 1, "/", []).to_json(), "s: no scenario with a number of steps"),
    ],
)
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(UserError, match=told):
        FaultPlan.load(path)


@pytest.mark.parametrize(
    ("keywords", "told"),
    [
        ({"faults": ["proces.kill"]}, "unknown fault 'proces.kill'\n  mend: did you mean 'process.kill'?"),
        ({"faults": ["net.partition"]}, "net.partition acts on nodes\n*"),
        ({"phases": ["backwards"]}, "unknown phase 'backwards'\n*"),
        ({"phases": ["transfer"]}, "no plan can be drawn\n*"),
        ({"world": 1}, "no plan can be drawn\n*"),
    ],
)
def test_what_no_plan_could_be_drawn_from_is_refused(keywords: dict[str, object], told: str) -> None:
    with pytest.raises(UserError) as refused:
        fault_plans(**keywords)  # type: ignore[arg-type]  # the mistake under test
    assert str(refused.value).startswith(told.rstrip("*"))
