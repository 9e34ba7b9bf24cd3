from chaos.invariants.adopted_state_was_held_by_a_member import adopted_state_was_held_by_a_member as rule
from chaos.invariants.finding import Verdict
from tests.chaos.histories import CommandJob, Job, changed, matching, verdict_of, without

ADOPTED = matching(event="step.commit", rank=1, adopted=True)


def test_holds_when_a_successor_adopts_a_survivors_state() -> None:
    finding = verdict_of(rule, Job(3).steps(2).kill(1, ahead=[0]))
    assert (finding.verdict, finding.detail) == (Verdict.PASS, "2 adopted commits, 2 transfers")


def test_a_step_that_no_member_held() -> None:
    job = Job().steps(2).kill(1)
    bad = changed(job.events, ADOPTED, step=7)
    assert "adopted, but no other member had committed it" in verdict_of(rule, job, bad).detail


def test_a_step_that_only_the_dead_held() -> None:
    job = Job(2).steps(1).kill(1, ahead=[1])
    bad = changed(job.events, ADOPTED, step=1)
    assert verdict_of(rule, job, bad).verdict == Verdict.VIOLATED


def test_another_state_than_the_members() -> None:
    job = Job().steps(2).kill(1)
    finding = verdict_of(rule, job, changed(job.events, ADOPTED, digest="made-up-state"))
    assert finding.first == "step 1 rank 1 (generation 2, pid 102): adopted made-up-, members held 00000002"


def test_a_transfer_that_no_sender_announced() -> None:
    job = Job().steps(2).kill(1)
    bad = changed(job.events, matching(event="state.receive"), digest="torn")
    assert (
        verdict_of(rule, job, bad).first == "rank 1 in generation 2: received torn, which no sender announced"
    )


def test_work_on_an_unverified_transfer() -> None:
    job = Job().steps(2).kill(1)
    bad = changed(job.events, matching(event="state.receive"), verified=False)
    assert "not verified" in verdict_of(rule, job, bad).detail


def test_too_thin_without_digests() -> None:
    job = Job().steps(2).kill(1)
    assert verdict_of(rule, job, changed(job.events, ADOPTED, digest=None)).verdict == Verdict.INCONCLUSIVE
    unopened = without(job.events, matching(event="generation.open"))
    assert verdict_of(rule, job, unopened).verdict == Verdict.INCONCLUSIVE


def test_not_applicable_without_adoption() -> None:
    assert verdict_of(rule, Job().steps(2)).verdict == Verdict.NOT_APPLICABLE
    assert verdict_of(rule, CommandJob().steps(2)).verdict == Verdict.NOT_APPLICABLE
