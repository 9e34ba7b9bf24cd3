from chaos.invariants.failed_collective_output_unused import failed_collective_output_unused as rule
from chaos.invariants.finding import Verdict
from tests.chaos.histories import CommandJob, Job, changed, matching, plus, verdict_of, without


def test_holds_when_a_rolled_back_step_is_done_again_in_the_next_generation() -> None:
    finding = verdict_of(rule, Job(3).steps(2).kill(1).steps(1))
    assert (finding.verdict, finding.detail) == (Verdict.PASS, "2 rolled back steps, none used")


def test_a_rolled_back_step_is_committed_in_its_generation() -> None:
    job = Job().steps(2).kill(1)
    bad = plus(job.events, matching(event="step.rollback"), event="step.commit", adopted=False)
    assert verdict_of(rule, job, bad).first == (
        "step 2 rank 0 (generation 1, pid 100): committed after it was rolled back in the same generation"
    )


def test_a_step_begun_and_committed_after_the_release() -> None:
    job = Job().steps(2).kill(1)
    bad = plus(job.events, matching(event="group.release"), event="step.begin", step=3)
    bad = plus(bad, matching(event="group.release"), after_s=0.00002, event="step.commit", step=3)
    assert "after the generation's group was released" in verdict_of(rule, job, bad).detail


def test_a_step_begun_before_the_release_may_commit() -> None:
    job = Job(3).steps(2).kill(1, ahead=[0])
    late = changed(
        job.events,
        matching(event="step.commit", rank=0, step=2),
        t=next(e["t"] for e in job.events if e["event"] == "group.release") + 0.00001,
    )
    assert verdict_of(rule, job, late).verdict == Verdict.PASS


def test_a_commit_for_a_generation_that_the_process_has_left() -> None:
    job = Job().steps(2).kill(1)
    bad = changed(job.events, matching(event="step.commit", rank=0, step=2), generation=1)
    assert "committed after the process entered generation 2" in str(verdict_of(rule, job, bad).last)


def test_too_thin_without_the_beginnings_of_steps() -> None:
    job = Job().steps(1)
    assert (
        verdict_of(rule, job, without(job.events, matching(event="step.begin"))).verdict
        == Verdict.INCONCLUSIVE
    )


def test_not_applicable_to_a_script() -> None:
    assert verdict_of(rule, CommandJob().steps(1)).verdict == Verdict.NOT_APPLICABLE
