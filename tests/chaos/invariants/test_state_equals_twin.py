from chaos.invariants.finding import Verdict
from chaos.invariants.state_equals_twin import state_equals_twin
from tests.chaos.histories import (
    CommandJob,
    Job,
    changed,
    matching,
    parts_at,
    verdict_of,
    without,
)


def test_holds_over_a_recovery() -> None:
    assert verdict_of(state_equals_twin, Job().steps(2).kill(1).steps(2).finish()).verdict == Verdict.PASS


def test_one_other_digest_is_found_and_the_part_named() -> None:
    job = Job().steps(2).finish()
    parts = {**parts_at(1), "optimizer": "stale lr"}
    bad = changed(job.events, matching(event="step.commit", rank=1, step=1), digest="x", parts=parts)
    finding = verdict_of(state_equals_twin, job, bad)
    assert (finding.verdict, finding.count) == (Verdict.VIOLATED, 1)
    assert finding.first == (
        "step 1 rank 1 (generation 1, pid 101): differs from the twin in optimizer stale lr (twin opt00001)"
    )


def test_the_worst_offence_is_the_one_with_most_parts() -> None:
    job = Job().steps(3).finish()
    parts = {**parts_at(1), "optimizer": "x", "model": "y"}
    bad = changed(job.events, matching(event="step.commit", rank=0, step=0), digest="x")
    bad = changed(bad, matching(event="step.commit", rank=0, step=1), digest="x", parts=parts)
    bad = changed(bad, matching(event="step.commit", rank=0, step=2), digest="x")
    finding = verdict_of(state_equals_twin, job, bad)
    assert finding.count == 3
    assert str(finding.worst).startswith("step 1 rank 0")
    assert finding.detail == (
        "step 0 rank 0 (generation 1, pid 100): state x differs from the twin's 00000001 (and 2 more)"
    )


def test_too_thin_without_a_twin_without_digests_or_with_a_short_twin() -> None:
    job = Job().steps(2).finish()
    assert verdict_of(state_equals_twin, job, reference=None).verdict == Verdict.INCONCLUSIVE
    bare = changed(job.events, matching(event="step.commit", rank=0, step=1), digest=None)
    bare = changed(bare, matching(event="step.commit", rank=1, step=1), digest=None)
    assert (
        verdict_of(state_equals_twin, job, bare).detail == "1 committed steps carry no digest, first step 1"
    )
    short = verdict_of(state_equals_twin, job, reference=Job().steps(1).history())
    assert short.detail == "the twin has no digest for 2 commits, first step 1 rank 0"
    silent = without(job.events, matching(event="step.commit"))
    assert verdict_of(state_equals_twin, job, silent).detail == "the history has no step.commit"


def test_not_applicable_to_a_script_without_digests() -> None:
    job = CommandJob(digests=False).steps(2).finish()
    assert verdict_of(state_equals_twin, job).verdict == Verdict.NOT_APPLICABLE


def test_recomputed_steps_of_a_restarted_job_are_compared_too() -> None:
    job = CommandJob().steps(3).kill(1, checkpoint=0).steps(3).finish()
    assert verdict_of(state_equals_twin, job).verdict == Verdict.PASS
    bad = changed(job.events, matching(event="step.commit", rank=1, step=1, pid=job.pids[1]), digest="x")
    assert verdict_of(state_equals_twin, job, bad).verdict == Verdict.VIOLATED
