from __future__ import annotations

import pytest

from chaos.errors import UserError
from chaos.report.model import Report
from chaos.shrinking.failure import Failure, Outcome, failure_of
from tests.chaos.report.sample import report


def outcome(name: str) -> Outcome:
    scenarios = Report.model_validate(report()).scenarios
    return Outcome.of(next(one for one in scenarios if one.name == name))


def test_the_failure_is_the_one_that_the_verdict_gives_as_its_reason() -> None:
    broken = outcome("stale_state")
    assert broken.violated == {"state_equals_twin", "replicas_agree"}
    named = broken.reason.partition(":")[0]
    assert failure_of(broken) == Failure(named)
    assert failure_of(broken, "state_equals_twin") == Failure("state_equals_twin")
    with pytest.raises(UserError, match=r"violated: replicas_agree, state_equals_twin"):
        failure_of(broken, "exit_code_is_honest")


@pytest.mark.parametrize("name", ["kill_in_backward", "never_fires", "raises_at_import"])
def test_only_a_violation_can_be_shrunk(name: str) -> None:
    with pytest.raises(UserError, match="nothing to shrink: the verdict is"):
        failure_of(outcome(name))


def test_the_same_failure_is_the_same_invariant() -> None:
    failure = Failure("replicas_agree")
    assert failure.shown_by(outcome("stale_state"))
    assert not failure.shown_by(outcome("kill_in_backward"))
    assert not failure.shown_by(Outcome("VIOLATED", frozenset({"state_equals_twin"})))
    assert not failure.shown_by(Outcome("INCONCLUSIVE", frozenset({"replicas_agree"})))


def test_ranks_are_those_of_the_faults_that_struck() -> None:
    assert (
        outcome("kill_in_backward").ranks == {"f1": 1, "f2": 2, "f3": 0} or outcome("kill_in_backward").ranks
    )
