"""Plans go from the simulator to real processes and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos.errors import UserError
from chaos.plan import Facts, Plan
from chaos.simulation.plan import SimFault, SimPlan
from chaos.simulation.real import committed_steps, from_real_plan, outline, to_real_plan, to_suite
from chaos.simulation.run import run_plan
from injectors.catalogue import CATALOGUE
from tests.chaos.runs import run

FACTS = Facts("", {}, "package:suites")


def kill(rank: int, step: int, phase: str = "backward", name_of: str = "f1") -> SimFault:
    return SimFault(name_of, "process.kill", {"rank": rank}, {"step": step, "phase": phase})


PLANS = (
    SimPlan(seed=1, faults=(kill(2, 4),)),
    SimPlan(seed=2, faults=(kill(0, 3, "forward"),), spares=0),
    SimPlan(seed=3, faults=(SimFault("f1", "process.stop", {"rank": 1}, {"step": 4, "phase": "forward"}),)),
    SimPlan(
        seed=4,
        spares=2,
        faults=(
            kill(3, 5),
            SimFault("f2", "process.kill", {"role": "transfer_target"}, {"event": "recovery.transfer"}),
        ),
    ),
)


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


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_simulated_and_real_runs_agree(tmp_path: Path) -> None:
    """Both ways at once: the real plan that comes of a simulated one is simulated again, and run."""
    path = tmp_path / "suite.json"
    path.write_text(json.dumps(to_suite(PLANS)), encoding="utf-8")
    done = run(path, tmp_path / "report")
    assert done.code == 0, done.out + done.err
    plan = Plan.from_dict(json.loads((done.folder / "plan.json").read_text()))
    for scenario in plan.scenarios:
        simulated = run_plan(from_real_plan(scenario), record=True)
        assert simulated.violation is None
        assert simulated.code == 0
        history = done.history(scenario.name)
        assert outline(history) == outline(simulated.history)
        assert committed_steps(history) == committed_steps(simulated.history)
