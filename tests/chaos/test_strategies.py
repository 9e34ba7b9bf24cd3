"""The published strategies, used as a user would."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from chaos import strategies as chaos
from chaos.simulation.fleet import FleetWorld
from chaos.simulation.generate import WEIGHTS
from chaos.simulation.plan import SimFault, SimPlan
from chaos.simulation.run import run_plan
from chaos.simulation.world import Machines, World
from tests.chaos.simulation.fleet_mutants import RankMovesBeforeTheLeaseIsOver
from tests.chaos.simulation.mutants import RankIsGivenAwayBeforeTheFence

SETTINGS = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.slow
@SETTINGS
@given(chaos.plans())
def test_no_plan_breaks_the_protocol(plan: SimPlan) -> None:
    assert run_plan(plan).violation is None


@pytest.mark.slow
@SETTINGS
@given(chaos.plans(hostile=True))
def test_no_plan_on_a_hostile_channel_breaks_it(plan: SimPlan) -> None:
    assert run_plan(plan).violation is None


@pytest.mark.slow
@SETTINGS
@given(chaos.fleet_plans())
def test_no_plan_on_several_nodes_breaks_it(plan: SimPlan) -> None:
    assert run_plan(plan).violation is None


@pytest.mark.slow
def test_a_failing_plan_of_several_nodes_shrinks_to_the_fault_that_matters() -> None:
    machines = Machines(fleet=RankMovesBeforeTheLeaseIsOver)
    quiet = settings(max_examples=300, derandomize=True, deadline=None, phases=[Phase.generate, Phase.shrink])
    broken = "rank_has_one_owner_that_may_act"
    plan = find(
        chaos.fleet_plans(nodes=3),
        lambda one: (found := run_plan(one, machines).violation) is not None and found.invariant == broken,
        settings=quiet,
    )
    assert len(plan.faults) == 1
    assert "node" in plan.faults[0].where
    assert eval(repr(plan), {"SimPlan": SimPlan, "SimFault": SimFault}) == plan


@pytest.mark.slow
def test_a_failing_plan_shrinks_to_what_matters_and_prints_as_code() -> None:
    machines = Machines(coordinator=RankIsGivenAwayBeforeTheFence)
    quiet = settings(max_examples=400, derandomize=True, deadline=None, phases=[Phase.generate, Phase.shrink])
    plan = find(chaos.plans(), lambda one: run_plan(one, machines).violation is not None, settings=quiet)
    assert len(plan.faults) == 1
    assert plan.world == 3
    assert eval(repr(plan), {"SimPlan": SimPlan, "SimFault": SimFault}) == plan


class Jobs(RuleBasedStateMachine):
    """A job that is driven by hand: let it go on, strike it, and at the end demand that it ends."""

    @initialize(seed=st.integers(0, 2**16), world=st.integers(3, 5), spares=st.integers(0, 2))
    def start(self, seed: int, world: int, spares: int) -> None:
        plan = SimPlan(seed=seed, world=world, spares=spares, steps=6)
        self.world = World(plan, random.Random(seed), Machines())
        self.struck = 0

    @rule(events=st.integers(1, 60))
    def goes_on(self, events: int) -> None:
        for _ in range(events):
            if not self.world.step():
                return

    @precondition(lambda self: self.world.ended is None and self.struck < 6)
    @rule(name=st.sampled_from(tuple(WEIGHTS)), place=chaos.places(3), lasts_ms=st.integers(20, 1500))
    def is_struck(self, name: str, place: dict[str, object], lasts_ms: int) -> None:
        self.struck += 1
        self.world.strike(SimFault(f"f{self.struck}", name, place, {}, lasts_ms / 1000))

    @invariant()
    def generations_are_those_that_were_opened(self) -> None:
        if hasattr(self, "world"):
            assert self.world.coordinator.generation == max(self.world.checks.openings, default=0)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            while self.world.step():
                pass
            assert self.world.ended is not None


class Fleets(Jobs):
    """The same on three nodes, struck as well where a process can't be."""

    @initialize(seed=st.integers(0, 2**16), world=st.integers(3, 5), spares=st.integers(0, 1))
    def start(self, seed: int, world: int, spares: int) -> None:
        plan = SimPlan(seed=seed, world=world, spares=spares, steps=6, nodes=3)
        self.world = FleetWorld(plan, random.Random(seed), Machines())
        self.struck = 0

    @precondition(lambda self: self.world.ended is None and self.struck < 6)
    @rule(fault=chaos.node_faults(nodes=3))
    def a_node_is_struck(self, fault: SimFault) -> None:
        self.struck += 1
        self.world.strike(replace(fault, id=f"f{self.struck}", duration_s=fault.duration_s or 0.5))


TestFleets = pytest.mark.slow(Fleets.TestCase)
TestFleets.settings = settings(
    max_examples=15, stateful_step_count=20, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip

TestJobs = pytest.mark.slow(Jobs.TestCase)
TestJobs.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip


PLAN = SimPlan(seed=1, world=3, steps=4, faults=(SimFault("f1", "process.kill", {"rank": 1}, {"step": 1}),))


@pytest.mark.slow
@SETTINGS
@given(chaos.schedules(PLAN))
def test_a_plan_holds_in_every_order_of_its_events(plan: SimPlan) -> None:
    assert replace(plan, seed=1, schedule="uniform", changes=0) == PLAN
    assert run_plan(plan).violation is None


def test_schedules_are_different_orders() -> None:
    found = find(chaos.schedules(PLAN), lambda plan: plan.schedule == "pct" and plan.seed > 5)
    assert run_plan(found).violation is None
