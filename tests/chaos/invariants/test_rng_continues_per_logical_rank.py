from chaos.invariants.finding import Verdict
from chaos.invariants.rng_continues_per_logical_rank import rng_continues_per_logical_rank as rule
from tests.chaos.histories import CommandJob, Job, changed, matching, verdict_of

AFTER = matching(event="step.commit", rank=1, step=2, generation=2)


def test_holds_over_a_recovery() -> None:
    assert verdict_of(rule, Job().steps(2).kill(1).steps(1)).verdict == Verdict.PASS


def test_a_successor_with_another_stream() -> None:
    job = Job().steps(2).kill(1)
    finding = verdict_of(rule, job, changed(job.events, AFTER, rng="fresh"))
    assert finding.first == "step 2 rank 1 (generation 2, pid 102): RNG fresh, twin rng10000"


def test_too_thin_without_rng_digests() -> None:
    job = Job().steps(2).kill(1)
    assert verdict_of(rule, job, changed(job.events, AFTER, rng=None)).verdict == Verdict.INCONCLUSIVE
    mute = [{key: value for key, value in event.items() if key != "rng"} for event in job.events]
    assert verdict_of(rule, job, mute).detail == "no commit carries an RNG digest"
    assert verdict_of(rule, job, reference=None).verdict == Verdict.INCONCLUSIVE


def test_not_applicable_to_a_script_without_rng_digests() -> None:
    assert verdict_of(rule, CommandJob(digests=False).steps(1)).verdict == Verdict.NOT_APPLICABLE
