"""Plans go from the simulator to real processes and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from chaos.errors import UserError
from chaos.plan import Facts, Plan
from chaos.simulation.plan import SimFault, SimPlan
from chaos.simulation.real import committed_steps, from_real_plan, outline, to_real_plan, to_suite
from chaos.simulation.run import run_plan
from injectors.catalogue import CATALOGUE
from tests.chaos.runs import ROOT, run

FACTS = Facts("", {}, "package:suites")


def kill(rank: int, step: int, phase: str = "backward", name_of: str = "f1") -> SimFault:
    return SimFault(name_of, "process.kill", {"rank": rank}, {"step": step, "phase": phase})


def other(name: str, rank: int, step: int, phase: str = "backward") -> SimFault:
    return SimFault("f1", name, {"rank": rank}, {"step": step, "phase": phase})


PLANS = (
    SimPlan(seed=1, faults=(kill(2, 4),)),
    SimPlan(seed=2, faults=(kill(0, 3, "forward"),), spares=0),
    SimPlan(seed=3, faults=(other("process.stop", 1, 4, "forward"),)),
    SimPlan(
        seed=4,
        spares=2,
        faults=(
            kill(3, 5),
            SimFault("f2", "process.kill", {"role": "transfer_target"}, {"event": "recovery.transfer"}),
        ),
    ),
    SimPlan(seed=5, faults=(kill(1, 3), kill(2, 7, "optimizer", "f2")), steps=10),
    SimPlan(seed=6, faults=(kill(2, 5, "commit"),), world=3),
    SimPlan(seed=7, faults=(other("process.exception", 1, 4),)),
    SimPlan(seed=8, faults=(other("collective.hang", 2, 5),)),
    SimPlan(seed=9, faults=(other("collective.error", 1, 5),)),
    SimPlan(
        seed=10,
        world=3,
        faults=(
            kill(0, 4),
            SimFault("f2", "process.kill", {"rank": 2}, {"event": "recovery.detect"}),
        ),
    ),
)
# Of shipped suites: what is injected is random there only in ways that the plan has settled.
SHIPPED = {
    "smoke": (
        *("three_kills", "kill_rank_0_in_backward", "kill_between_step_and_commit", "freeze_in_backward"),
        *("exception_in_backward", "hang_in_a_collective", "skip_a_collective", "error_in_a_collective"),
    ),
    "recovery_under_fire": ("kill_the_transfer_target", "kill_all_but_one"),
}
PATIENT = {"detect": "5s", "recover": "30s", "run": "120s"}
"""Bounds for a machine on which much else runs: what is compared has no times in it."""
DEFAULTS = {"target": {"kind": "recovery", "workload": "tiny_gpt"}, "bounds": PATIENT}


def test_there_and_back_keeps_the_faults() -> None:
    real = to_real_plan(PLANS, FACTS, CATALOGUE)
    for plan, scenario in zip(PLANS, real.scenarios, strict=True):
        back = from_real_plan(scenario)
        assert [(f.name, f.where, f.when) for f in back.faults] == [
            (f.name, f.where, f.when) for f in plan.faults
        ]
        assert (back.world, back.spares) == (plan.world, plan.spares)


def test_what_one_side_lacks_is_refused_by_name() -> None:
    simulated = SimPlan(seed=1, faults=(SimFault("f1", "net.duplicate", {"rank": 1}, {"after_s": 1.0}),))
    with pytest.raises(UserError, match=r"net\.duplicate can't be placed on one node's processes"):
        to_suite([simulated])
    real = to_real_plan(PLANS[:1], FACTS, CATALOGUE).to_dict()
    real["scenarios"][0]["faults"][0]["name"] = "process.oom"
    with pytest.raises(UserError, match=r"the simulator has no process\.oom"):
        from_real_plan(Plan.from_dict(real).scenarios[0])


def shipped() -> dict[str, Any]:
    """One suite, as data, of the scenarios named above."""
    scenarios = []
    for name, wanted in SHIPPED.items():
        suite = yaml.safe_load((ROOT / "suites" / f"{name}.yaml").read_text(encoding="utf-8"))
        found = [one for one in suite["scenarios"] if one["name"] in wanted]
        assert len(found) == len(wanted)
        scenarios += [
            {**one, "target": {**suite["defaults"]["target"], **one.get("target", {})}, "bounds": PATIENT}
            for one in found
        ]
    return {"suite": "shipped", "description": "From shipped suites.", "seed": 1, "scenarios": scenarios}


def agree(suite: dict[str, Any], tmp_path: Path, count: int) -> None:
    """Run it on real processes, simulate the plan that was made of it, and compare."""
    path = tmp_path / "suite.json"
    path.write_text(json.dumps(suite), encoding="utf-8")
    done = run(path, tmp_path / "report", timeout_s=900.0)
    assert done.code == 0, done.out + done.err
    plan = Plan.from_dict(json.loads((done.folder / "plan.json").read_text()))
    assert len(plan.scenarios) == count
    for scenario in plan.scenarios:
        simulated = run_plan(from_real_plan(scenario), record=True)
        assert (simulated.violation, simulated.code) == (None, 0)
        history = done.history(scenario.name)
        assert outline(history) == outline(simulated.history), scenario.name
        assert committed_steps(history) == committed_steps(simulated.history), scenario.name


@pytest.mark.slow
@pytest.mark.timeout(1000)
def test_ten_simulated_plans_have_the_same_outcome_on_real_processes(tmp_path: Path) -> None:
    agree({**to_suite(PLANS), "defaults": DEFAULTS}, tmp_path, 10)


@pytest.mark.slow
@pytest.mark.timeout(1000)
def test_ten_real_plans_have_the_same_generations_in_the_simulator(tmp_path: Path) -> None:
    agree(shipped(), tmp_path, 10)
