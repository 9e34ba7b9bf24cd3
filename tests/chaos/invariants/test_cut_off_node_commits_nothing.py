from typing import Any

import pytest

from chaos.invariants.cut_off_node_commits_nothing import cut_off_node_commits_nothing as rule
from chaos.invariants.finding import Verdict
from tests.chaos.histories import CommandJob, Job, verdict_of


def job(*events: tuple[str, dict[str, Any]]) -> Job:
    """A right run of two steps, then what is given."""
    made = Job().steps(2)
    for name, fields in events:
        made.emit(name, **fields)
    return made


def commit(node: int, step: int = 2) -> tuple[str, dict[str, Any]]:
    return "step.commit", {"rank": node, "step": step, "generation": 2, "node": node}


LOST = ("node.lost", {"about": 1, "session": 2, "reason": "silent", "node": 0})
EXPIRED = ("lease.expired", {"silent_s": 1.7, "node": 1})
BACK = ("node.returned", {"about": 1, "session": 3, "reason": "", "node": 0})


def test_holds_while_it_is_gone_and_when_it_is_back() -> None:
    right = job(commit(1), EXPIRED, LOST, commit(0), BACK, commit(1, 3))
    assert verdict_of(rule, right).verdict == Verdict.PASS


@pytest.mark.parametrize("gone", [EXPIRED, LOST])
def test_a_commit_after_either_word_breaks_it(gone: tuple[str, dict[str, Any]]) -> None:
    finding = verdict_of(rule, job(gone, commit(1)))
    assert finding.verdict == Verdict.VIOLATED
    assert "rank 1 on node 1 committed step 2" in finding.detail


def test_a_process_that_outlives_its_node_breaks_it() -> None:
    start = ("worker.start", {"pid": 900, "role": "member", "rank": 1, "node": 1})
    end = ("worker.exit", {"pid": 900, "rank": 1, "role": "member", "code": None, "signal": 9, "node": 1})
    assert verdict_of(rule, job(start, end, EXPIRED, LOST)).verdict == Verdict.PASS
    finding = verdict_of(rule, job(start, EXPIRED, LOST, end))
    assert finding.first == "process 900 of rank 1 still ran when node 1 was given up"
    # A node that died whole has nobody left to tell of its processes' ends.
    assert verdict_of(rule, job(start, LOST)).verdict == Verdict.PASS


def test_nothing_to_say_without_a_loss() -> None:
    assert verdict_of(rule, Job().steps(2).finish()).verdict == Verdict.NOT_APPLICABLE
    assert verdict_of(rule, CommandJob().steps(2).finish()).verdict == Verdict.NOT_APPLICABLE
