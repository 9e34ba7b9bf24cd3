from chaos.invariants.every_sample_exactly_once import every_sample_exactly_once as rule
from chaos.invariants.finding import Verdict
from tests.chaos.histories import CommandJob, Job, changed, matching, verdict_of

OWN = matching(event="step.commit", rank=1, step=2)


def test_holds_over_replayed_and_adopted_steps() -> None:
    job = Job(3).steps(2).kill(1, ahead=[1]).kill(2, ahead=[0]).steps(1)
    finding = verdict_of(rule, job)
    assert finding.verdict == Verdict.PASS
    assert finding.detail.endswith("; 2 adopted without")


def test_a_replayed_step_takes_the_next_batch() -> None:
    job = Job().steps(2).kill(1)
    bad = changed(job.events, OWN, notes={"samples": [302, 303]})
    finding = verdict_of(rule, job, bad)
    assert finding.first == "step 2 rank 1: samples [302, 303], twin [202, 203]"
    assert finding.last == "step 2, all ranks: 2 samples too often, 2 missing"


def test_another_order_on_one_rank() -> None:
    job = Job().steps(3)
    finding = verdict_of(rule, job, changed(job.events, OWN, notes={"samples": [203, 202]}))
    assert (finding.verdict, finding.count) == (Verdict.VIOLATED, 1)


def test_a_successor_commits_other_samples_again() -> None:
    job = Job().steps(2).kill(1, ahead=[1])
    bad = changed(
        job.events,
        matching(event="step.commit", rank=1, step=2, generation=2),
        notes={"samples": list(range(6))},
    )
    assert verdict_of(rule, job, bad).first == (
        "step 2 rank 1 (generation 2, pid 102): committed again with samples [0, 1, 2, 3, ... 6 in all], "
        "was [202, 203]"
    )


def test_too_thin_if_a_commit_or_the_twin_is_silent() -> None:
    job = Job().steps(3)
    silent = changed(job.events, OWN, notes=None)
    assert verdict_of(rule, job, silent).detail == "1 commits note no samples, first step 2 rank 1"
    shorter = verdict_of(rule, job, reference=Job().steps(2).history())
    assert shorter.detail == "the twin notes no samples for step 2 rank 0"
    mute = [{**event, "notes": {}} for event in job.events]
    assert verdict_of(rule, job, mute).verdict == Verdict.INCONCLUSIVE


def test_not_applicable_to_a_script_that_notes_nothing() -> None:
    assert verdict_of(rule, CommandJob().steps(2)).verdict == Verdict.NOT_APPLICABLE
