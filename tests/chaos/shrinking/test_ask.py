from __future__ import annotations

import random

import pytest

from chaos.shrinking.ask import ask
from tests.chaos.shrinking.oracles import failing, simulated_oracle
from tests.chaos.shrinking.planned import kill, scenario_of
from tests.chaos.simulation.mutants import MUTANTS


def test_a_sound_protocol_says_that_the_failure_lies_elsewhere() -> None:
    answer = ask(scenario_of([kill(1), kill(2, 25)]))
    assert answer.kept == ()
    assert answer.said == "the simulator holds in 12 schedules: it is not the protocol alone"


@pytest.mark.parametrize(
    ("faults", "target", "said"),
    [
        ([{"fault": "process.segv", "where": {"rank": 1}, "when": {"step": 3}}], {}, "has no process.segv"),
        ([{"fault": "process.kill", "where": {"rank": 1}, "when": {"after_s": 1}}], {}, "comes at a time"),
    ],
)
def test_what_it_cannot_answer_it_says(
    faults: list[dict[str, object]], target: dict[str, object], said: str
) -> None:
    answer = ask(scenario_of(faults, target))
    assert answer.kept == ()
    assert answer.said.startswith("the simulator can't tell: ")
    assert said in answer.said


@pytest.mark.slow
def test_a_bug_of_the_protocol_is_shrunk_there() -> None:
    (mutant,) = [one for one in MUTANTS if one.name == "double_heal"]
    run = simulated_oracle(mutant.machines)
    scenario, outcome = failing(random.Random(mutant.name), run)
    answer = ask(scenario, mutant.machines)
    assert 1 <= len(answer.kept) < len(scenario.faults)
    assert set(answer.kept) <= {fault.id for fault in scenario.faults}
    assert next(iter(outcome.violated)) in answer.said
