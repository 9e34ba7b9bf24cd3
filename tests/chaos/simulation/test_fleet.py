"""Jobs on several nodes in virtual time: what each fault leads to, and that single nodes are as they were."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import replace
from typing import Any

import pytest

from chaos.errors import UserError
from chaos.simulation import coverage, search
from chaos.simulation.fleet_checks import NAMES as CHECKS
from chaos.simulation.generate import make_plan
from chaos.simulation.generate_nodes import NODE_WEIGHTS, make_fleet_plan, make_node_fault
from chaos.simulation.node_faults import _STRIKES
from chaos.simulation.plan import NODE_NAMES, SimFault, SimPlan
from chaos.simulation.run import Outcome, run_plan
from tests.chaos.simulation.fleet_mutants import FLEET_MUTANTS

AT = {"step": 4, "phase": "backward"}


def fault(name: str, node: int, duration_s: float | None = None, n: int = 1, **params: Any) -> SimFault:
    when = AT if n == 1 else {"after_fault": f"f{n - 1}", "after_s": 0.3}
    return SimFault(f"f{n}", name, {"node": node}, when, duration_s, params)


def simulate(*faults: SimFault, **more: Any) -> Outcome:
    more = {"seed": 3, "nodes": 3, "world": 6, "steps": 10, "spares": 0} | more
    outcome = run_plan(SimPlan(faults=faults, **more), record=True)
    assert outcome.violation is None, outcome.violation
    return outcome


def events(outcome: Outcome, name: str) -> list[dict[str, Any]]:
    return [event for event in outcome.history if event["event"] == name]


def said(outcome: Outcome, standing: str) -> list[int]:
    return [event["node"] for event in events(outcome, f"node.{standing}") if "node" in event]


def causes(outcome: Outcome) -> list[list[Any]]:
    return [cause for event in events(outcome, "recovery.done") for cause in event["causes"]]


# ---------------------------------------------------------------- one node is as it was


@pytest.mark.slow
def test_plans_and_histories_of_one_node_are_byte_for_byte_what_they_were() -> None:
    """The digest was taken before there were several nodes."""
    plans, histories = hashlib.sha256(), hashlib.sha256()
    for seed in range(40):
        plan = make_plan(random.Random(f"b {seed}"), seed)
        plans.update(plan.to_json().encode())
        histories.update(run_plan(plan, record=True).history_json().encode())
    assert (plans.hexdigest()[:16], histories.hexdigest()[:16]) == ("bf970d43c7f20655", "3e7861f4fe243bfa")


def test_the_same_seed_gives_the_same_history() -> None:
    plan = make_fleet_plan(random.Random(1), 7, faults=4)
    assert run_plan(plan, record=True).history_json() == run_plan(plan, record=True).history_json()
    assert run_plan(replace(plan, seed=8), record=True).history != run_plan(plan, record=True).history


def test_a_plan_of_several_nodes_survives_its_file() -> None:
    plan = make_fleet_plan(random.Random(2), 9, nodes=3)
    assert SimPlan.from_dict(json.loads(plan.to_json())) == plan


@pytest.mark.parametrize(
    ("nodes", "place", "message"),
    [(3, 3, "there is no node 3"), (1, 0, "the simulator has no fault 'node.kill'")],
)
def test_a_fault_of_a_node_that_does_not_exist_is_refused(nodes: int, place: int, message: str) -> None:
    plan = SimPlan(seed=1, nodes=nodes, faults=(fault("node.kill", place),))
    with pytest.raises(UserError, match=message):
        SimPlan.from_dict(plan.to_dict())


def test_every_fault_of_a_node_is_known_everywhere() -> None:
    assert set(_STRIKES) == set(NODE_NAMES) == set(NODE_WEIGHTS)


# ---------------------------------------------------------------- what faults lead to


def test_an_undisturbed_job_has_one_generation_and_loses_nothing() -> None:
    outcome = simulate()
    assert len(events(outcome, "generation.open")) == 1
    assert said(outcome, "joined") == [0, 1, 2]
    assert said(outcome, "lost") == []


def test_a_node_without_power_is_one_loss_and_its_ranks_move() -> None:
    outcome = simulate(fault("node.kill", 2))
    assert outcome.code == 0
    assert causes(outcome) == [[None, "node_lost"]]
    assert said(outcome, "lost") == [2]


def test_a_partitioned_node_ends_its_processes_before_they_are_replaced() -> None:
    outcome = simulate(fault("node.isolate", 1, 2.0), steps=30)
    (fell,) = [e["t"] for e in events(outcome, "lease.expired") if e.get("node") == 1]
    replaced = [e["t"] for e in events(outcome, "generation.open") if e["generation"] == 2]
    assert fell < min(replaced)
    assert said(outcome, "returned") == [1]


def test_a_short_partition_costs_no_node() -> None:
    assert said(simulate(fault("net.partition", 1, 0.1)), "lost") == []


def test_a_cut_between_two_other_nodes_puts_one_out_and_takes_it_back() -> None:
    outcome = simulate(fault("net.partition", 1, 8.0, shape="pairs", pairs="1-2"), steps=80)
    assert said(outcome, "evicted")[:1] == [2]
    assert said(outcome, "returned") == [2]


def test_a_cut_in_one_direction_is_no_better() -> None:
    outcome = simulate(fault("net.drop_one_way", 1, 8.0, pairs="2>1"), steps=30)
    assert said(outcome, "evicted")[:1] == [2]


def test_a_frozen_supervisors_workers_do_not_commit_after_the_lease() -> None:
    outcome = simulate(fault("process.stop", 2, 2.0))
    assert said(outcome, "lost") == [2]
    assert outcome.code == 0


def test_a_supervisor_that_returns_waits_for_the_lease_of_the_one_before_it() -> None:
    outcome = simulate(fault("process.kill", 2, 0.1), steps=40)
    (fired,) = events(outcome, "fault.fired")
    back = [e["t"] for e in events(outcome, "node.session") if e["node"] == 2][1]
    assert back - fired["t"] > 0.4


def test_a_node_that_resigns_is_not_waited_for() -> None:
    outcome = simulate(fault("node.preempt", 2, grace_s=1.0))
    (lost,) = [e for e in events(outcome, "node.lost") if "node" in e]
    assert lost["reason"] == "it was asked to end"
    assert lost["t"] - events(outcome, "fault.fired")[0]["t"] < 0.4
    assert causes(outcome) == [[None, "node_lost"]]


def test_a_minority_commits_nothing() -> None:
    outcome = simulate(fault("net.partition", 0, None, shape="isolate"))
    assert (outcome.code, outcome.reason) == (1, "too few nodes")
    cut = events(outcome, "fault.fired")[0]["t"]
    assert all(e["t"] < cut + 0.2 for e in events(outcome, "step.commit"))


def test_a_coordinator_that_is_gone_ends_the_job_on_every_node() -> None:
    outcome = simulate(fault("process.kill", 0))
    assert (outcome.code, outcome.reason) == (1, "coordinator lost")
    gone = events(outcome, "fault.fired")[0]["t"]
    assert outcome.history[-1]["t"] < gone + 8.0


def test_a_coordinator_that_comes_back_empty_takes_no_one_of_its_earlier_start() -> None:
    outcome = simulate(fault("process.kill", 0, 0.2))
    gone = events(outcome, "fault.fired")[0]["t"]
    assert outcome.reason == "coordinator lost"
    assert outcome.history[-1]["t"] < gone + 3.0


def test_a_slow_node_and_a_drifting_clock_cost_nothing() -> None:
    for one in (fault("host.cpu_throttle", 1, 1.0), fault("clock.drift", 1, rate="slow")):
        assert len(events(simulate(one), "generation.open")) == 1


@pytest.mark.parametrize("name", NODE_NAMES)
def test_no_single_fault_of_a_node_breaks_a_rule(name: str) -> None:
    for seed in range(10):
        one = make_node_fault(random.Random(seed), "f1", name, 3, 8, 0)
        outcome = run_plan(SimPlan(seed=seed, nodes=3, world=5, faults=(one,)))
        assert outcome.violation is None, (one, outcome.violation)


# ---------------------------------------------------------------- the search


@pytest.mark.slow
def test_a_mixed_search_has_plans_of_both_kinds_and_shows_both_tables() -> None:
    tally = search.chunk(search.Options(seed=3), 0, 80)
    assert tally.found is None
    assert tally.nodes[1] == 60
    assert sum(times for nodes, times in tally.nodes.items() if nodes > 1) == 20
    text = coverage.table(tally.seen)
    assert "parked spare" in text
    assert "the coordinator's" in text


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["uniform", "pct", "guided"])
def test_every_mode_searches_jobs_of_a_given_size(mode: str) -> None:
    tally = search.chunk(search.Options(seed=5, mode=mode, nodes=3, world=4), 3, 60)
    assert tally.found is None
    assert (set(tally.nodes), set(tally.worlds)) == ({3}, {4})


@pytest.mark.slow
def test_each_check_is_a_name_that_some_seeded_bug_breaks_or_that_is_documented() -> None:
    from pathlib import Path

    protocol = Path("recovery/PROTOCOL.md").read_text(encoding="utf-8")
    assert [name for name in CHECKS if f"`{name}`" not in protocol] == []
    assert len(FLEET_MUTANTS) >= 12
