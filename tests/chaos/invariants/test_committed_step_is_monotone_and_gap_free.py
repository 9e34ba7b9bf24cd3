import pytest

from chaos.invariants.committed_step_is_monotone_and_gap_free import committed_step_is_monotone_and_gap_free
from chaos.invariants.finding import Verdict
from tests.chaos.histories import CommandJob, Job, changed, matching, plus, verdict_of, without

RULE = committed_step_is_monotone_and_gap_free


@pytest.mark.parametrize(
    "job",
    [
        Job().steps(3),
        Job(3).steps(2).kill(1).steps(1),
        Job(3).kill(1).steps(1),
        Job(3).steps(2).kill(1, ahead=[1]).steps(1),  # the dead rank was ahead and took its step with it
        Job(3).steps(2).kill(1, ahead=[0]).steps(1),  # a survivor was ahead: the others adopt its step
        Job(4).steps(1).kill(0, 2, during=3).steps(1),
        CommandJob().steps(4).kill(0, checkpoint=1).steps(3),
    ],
)
def test_holds(job: Job) -> None:
    assert verdict_of(RULE, job).verdict == Verdict.PASS


def test_a_gap() -> None:
    job = Job(1).steps(3)
    finding = verdict_of(RULE, job, without(job.events, matching(event="step.commit", step=1)))
    assert finding.first == "step 2 rank 0 (generation 1, pid 100): the process jumped from step 0: 1 missing"


def test_a_process_that_goes_back() -> None:
    job = Job(1).steps(3)
    bad = plus(job.events, matching(event="step.commit", step=0), after_s=1.0)
    assert "had already committed step 2" in verdict_of(RULE, job, bad).detail


def test_a_successor_that_goes_back_below_what_others_hold() -> None:
    job = Job().steps(3).kill(1)
    bad = changed(job.events, matching(event="step.commit", rank=1, adopted=True), step=0)
    assert "the successor went back" in verdict_of(RULE, job, bad).detail


def test_a_successor_that_skips_what_it_never_received() -> None:
    job = Job().steps(2).kill(1, ahead=[0])
    bad = without(job.events, matching(event="state.receive"))
    bad = without(bad, matching(event="step.commit", rank=1, adopted=True))
    assert "received no state in between" in verdict_of(RULE, job, bad).detail


def test_a_restarted_job_that_leaves_steps_out() -> None:
    job = CommandJob().steps(2).kill(0, checkpoint=3).steps(1)
    assert verdict_of(RULE, job).verdict == Verdict.VIOLATED


def test_a_script_that_prints_its_steps_has_no_pids() -> None:
    job = CommandJob().steps(4).kill(0, checkpoint=1).steps(3)
    printed = [
        {**event, "source": "engine", "pid": 1} if event["event"] == "step.commit" else event
        for event in job.events
    ]
    assert verdict_of(RULE, job, printed).verdict == Verdict.PASS
    gap = without(printed, matching(event="step.commit", step=2))
    assert verdict_of(RULE, job, gap).verdict == Verdict.VIOLATED


def test_too_thin_without_commits() -> None:
    assert verdict_of(RULE, Job()).verdict == Verdict.INCONCLUSIVE
