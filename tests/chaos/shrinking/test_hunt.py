"""Whole hunts, with oracles instead of real runs."""

from __future__ import annotations

import random

import pytest

from chaos.plan import PlannedScenario
from chaos.shrinking.failure import Failure, Outcome, failure_of
from chaos.shrinking.hunt import Hunt, Run
from chaos.shrinking.variants import Known, Variant
from injectors.catalogue import CATALOGUE
from tests.chaos.shrinking.oracles import INVARIANT, failing, fake_oracle, simulated_oracle
from tests.chaos.shrinking.planned import kill, scenario_of
from tests.chaos.simulation.mutants import MUTANTS, Mutant

# Bugs of the protocol that one or two faults bring out.
SEEDED = (
    "barrier_key_is_reused",
    "opens_before_all_are_ready",
    "dead_member_stays_ready",
    "rank_is_given_away_before_the_fence",
    "thawed_rank_is_not_fenced",
    "source_is_one_step_behind",
    "lowest_rank_is_the_source",
    "double_heal",
    "torn_state_is_reported",
    "two_faults_count_as_one",
)
MOST_RUNS = 30
"""Of real processes in five minutes: one takes six to ten seconds on two cores."""


def hunt(scenario: PlannedScenario, run: Run, failure: Failure | None = None) -> Hunt:
    return Hunt(Variant(scenario), Known.of(scenario, CATALOGUE, {}), run, failure or Failure(INVARIANT))


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [one for one in MUTANTS if one.name in SEEDED], ids=lambda one: one.name)
def test_ten_seeded_failures_of_many_faults_come_down_to_one_or_two(mutant: Mutant) -> None:
    run = simulated_oracle(mutant.machines)
    scenario, outcome = failing(random.Random(mutant.name), run)
    assert 4 <= len(scenario.faults) <= 8
    found = hunt(scenario, run, failure_of(outcome))
    list(found.go())
    small = found.best.scenario
    assert found.finished
    assert 1 <= len(small.faults) <= 2
    assert {fault.id for fault in small.faults} <= {fault.id for fault in scenario.faults}
    assert failure_of(outcome).shown_by(run(small))
    assert found.runs <= MOST_RUNS


def test_there_are_ten() -> None:
    assert len(SEEDED) == len({one.name for one in MUTANTS} & set(SEEDED)) == 10


def eight() -> PlannedScenario:
    stop = {"fault": "process.stop", "where": {"rank": 3}, "when": {"step": 24}, "for": "4s"}
    return scenario_of([*(kill(n % 4, 12 + n) for n in range(7)), stop])


def test_everything_that_does_not_matter_goes() -> None:
    run = fake_oracle(
        lambda fault: fault.name == "process.stop" and (fault.duration_s or 0) >= 1.0,
        lambda fault: fault.name == "process.kill" and fault.when["step"] >= 6,
        least_world=3,
    )
    found = hunt(eight(), run)
    sizes = [len(variant.scenario.faults) for variant in found.go()]
    assert sizes == sorted(sizes, reverse=True)
    small = found.best.scenario
    stop, victim = sorted(small.faults, key=lambda fault: fault.name, reverse=True)
    assert (stop.name, stop.duration_s) == ("process.stop", 1.0)
    assert victim.name == "process.kill"
    assert victim.when["step"] < 12
    assert {fault.where["rank"] for fault in small.faults} == {0}
    assert small.target["world"] == 3
    assert small.target["spares"] == 0
    assert small.target["steps"] < 40
    assert small.target["args"] == ["--steps", str(small.target["steps"])]
    assert found.runs <= MOST_RUNS


def test_stopped_at_any_time_it_has_kept_what_failed_last() -> None:
    run = fake_oracle(lambda fault: fault.name == "process.stop")
    sizes = []
    for most in range(8):
        found = hunt(eight(), run)
        found.may_go_on = lambda found=found, most=most: found.runs < most  # type: ignore[misc]
        list(found.go())
        assert found.runs <= most
        assert run(found.best.scenario).verdict == "VIOLATED"
        sizes.append(len(found.best.scenario.faults))
    assert sizes[0] == 8
    assert sizes[-1] == 1
    assert sizes == sorted(sizes, reverse=True)


def test_an_exception_in_a_run_leaves_the_best() -> None:
    run = fake_oracle(lambda fault: fault.name == "process.stop")

    def interrupted(scenario: PlannedScenario) -> Outcome:
        if len(scenario.faults) < 3:
            raise KeyboardInterrupt
        return run(scenario)

    found = hunt(eight(), interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(found.go())
    assert 3 <= len(found.best.scenario.faults) < 8
    assert not found.finished


def test_a_proposal_is_tried_first_and_believed_only_if_it_fails() -> None:
    run = fake_oracle(lambda fault: fault.name == "process.stop")
    tried: list[tuple[str, bool]] = []
    for proposed, first in (
        (("f8",), ("only f8, as simulated", True)),
        (("f1",), ("only f1, as simulated", False)),
    ):
        found = hunt(eight(), run)
        tried.clear()
        found.say = lambda variant, failed: tried.append((variant.change, failed))
        list(found.go(proposed))
        assert tried[0] == first
        assert [fault.name for fault in found.best.scenario.faults] == ["process.stop"]


def test_one_that_fails_now_and_then_is_tried_again() -> None:
    run, calls = fake_oracle(lambda fault: fault.name == "process.stop"), []

    def flaky(scenario: PlannedScenario) -> Outcome:
        calls.append(scenario)
        return run(scenario) if len(calls) % 2 == 0 else Outcome("PASS")

    once, twice = hunt(eight(), flaky), hunt(eight(), flaky)
    twice.tries = 2
    list(twice.go())
    assert [fault.name for fault in twice.best.scenario.faults] == ["process.stop"]
    calls.clear()
    assert len(list(once.go())) < twice.runs


def test_another_failure_is_not_the_one_that_is_looked_for() -> None:
    other = fake_oracle()
    found = hunt(eight(), other, Failure("exit_code_is_honest"))
    assert list(found.go()) == []
    assert len(found.best.scenario.faults) == 8


def test_a_role_becomes_the_rank_that_it_was_in_the_run() -> None:
    scenario = scenario_of([kill(2), {**kill(role="replacement"), "when": {"event": "recovery.transfer"}}])
    run = fake_oracle(
        lambda fault: fault.when.get("event") == "recovery.transfer", lambda fault: "step" in fault.when
    )
    found = hunt(scenario, run)
    list(found.go())
    assert [fault.where for fault in found.best.scenario.faults] == [{"rank": 0}, {"rank": 0}]
