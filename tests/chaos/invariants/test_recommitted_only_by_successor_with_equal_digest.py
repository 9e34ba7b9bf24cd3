from chaos.invariants.finding import Verdict
from chaos.invariants.recommitted_only_by_successor_with_equal_digest import (
    recommitted_only_by_successor_with_equal_digest as rule,
)
from tests.chaos.histories import CommandJob, Job, changed, matching, plus, verdict_of


def test_holds_if_a_successor_commits_the_same_again() -> None:
    job = Job().steps(1).kill(1, ahead=[1]).steps(1)
    finding = verdict_of(rule, job)
    assert finding.verdict == Verdict.PASS
    assert finding.detail == "2 steps committed again, each by a successor"


def test_one_process_commits_a_step_twice() -> None:
    job = Job().steps(2)
    bad = plus(job.events, matching(event="step.commit", step=1))
    assert (
        verdict_of(rule, job, bad).first
        == "step 1 rank 0 (generation 1, pid 100): committed again by the same process"
    )


def test_two_processes_commit_a_step_in_one_generation() -> None:
    job = Job().steps(2)
    bad = plus(job.events, matching(event="step.commit", step=1), pid=999)
    assert "in generation 1, not later than 1 (pid 100)" in verdict_of(rule, job, bad).detail


def test_a_successor_gets_another_result() -> None:
    job = Job().steps(1).kill(1, ahead=[1])
    bad = changed(job.events, matching(event="step.commit", rank=1, step=1, generation=2), digest="other")
    assert "committed again with other, was 00000002 (pid 101)" in verdict_of(rule, job, bad).detail


def test_a_restarted_job_commits_again_and_must_get_the_same() -> None:
    job = CommandJob().steps(3).kill(0, checkpoint=0).steps(2)
    assert verdict_of(rule, job).verdict == Verdict.PASS
    bad = changed(job.events, matching(event="step.commit", step=2, rank=1, pid=job.pids[1]), digest="other")
    assert verdict_of(rule, job, bad).verdict == Verdict.VIOLATED


def test_too_thin_without_digests() -> None:
    job = Job().steps(1).kill(1, ahead=[1])
    bare = changed(job.events, matching(event="step.commit", rank=1, step=1), digest=None)
    assert verdict_of(rule, job, bare).verdict == Verdict.INCONCLUSIVE
