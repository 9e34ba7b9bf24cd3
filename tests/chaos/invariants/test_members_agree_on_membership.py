from chaos.invariants.finding import Verdict
from chaos.invariants.members_agree_on_membership import members_agree_on_membership as rule
from tests.chaos.histories import CommandJob, Job, changed, matching, plus, verdict_of, without


def test_holds_even_if_a_generation_was_entered_in_part() -> None:
    assert verdict_of(rule, Job(3).steps(1).kill(1, during=2).steps(1)).verdict == Verdict.PASS


def test_an_uninvited_process_enters() -> None:
    job = Job().steps(1)
    bad = plus(job.events, matching(event="generation.formed", rank=1), pid=999)
    assert verdict_of(rule, job, bad).first == (
        "generation 1: rank 1 was entered by pid 999, invited was pid 101"
    )
    extra = plus(job.events, matching(event="generation.formed", rank=1), rank=5)
    assert "rank 5 (pid 101) entered without an invitation" in verdict_of(rule, job, extra).detail


def test_a_rank_given_twice_and_one_missing() -> None:
    job = Job().steps(1)
    members = [{"rank": 0, "pid": 100}, {"rank": 0, "pid": 101}]
    finding = verdict_of(rule, job, changed(job.events, matching(event="generation.open"), members=members))
    assert finding.first == "generation 1: rank 0 was given to 2 processes"
    assert finding.last == "generation 1: committed with ranks [0] of a world of 2"


def test_one_process_with_two_ranks() -> None:
    job = Job().steps(1)
    members = [{"rank": 0, "pid": 100}, {"rank": 1, "pid": 100}]
    finding = verdict_of(rule, job, changed(job.events, matching(event="generation.open"), members=members))
    assert finding.first == "generation 1: pid 100 was given 2 ranks"


def test_a_commit_before_all_entered() -> None:
    job = Job().steps(1)
    bad = without(job.events, matching(event="generation.formed", rank=1))
    assert verdict_of(rule, job, bad).first == "generation 1: committed although rank 1 had not entered"


def test_generations_that_go_back_or_were_never_opened() -> None:
    job = Job().steps(1).kill(1)
    back = changed(job.events, matching(event="generation.open", generation=2), t=0.00001)
    assert "generation 2 was opened before an earlier one" in verdict_of(rule, job, back).detail
    unopened = without(job.events, matching(event="generation.open", generation=2))
    assert "generation 2 was entered but never opened" in verdict_of(rule, job, unopened).detail


def test_too_thin_if_nobody_says_that_it_entered() -> None:
    job = Job().steps(1)
    bare = without(job.events, matching(event="generation.formed"))
    assert verdict_of(rule, job, bare).verdict == Verdict.INCONCLUSIVE
    assert verdict_of(rule, CommandJob().steps(1)).verdict == Verdict.NOT_APPLICABLE
