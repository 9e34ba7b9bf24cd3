from chaos.invariants.finding import Verdict
from chaos.invariants.one_owner_per_rank_and_generation import one_owner_per_rank_and_generation as rule
from tests.chaos.histories import CommandJob, Job, matching, plus, verdict_of, without


def test_holds_over_a_recovery() -> None:
    finding = verdict_of(rule, Job().steps(1).kill(1))
    assert (finding.verdict, finding.detail) == (Verdict.PASS, "4 (rank, generation) pairs, one owner each")


def test_two_processes_act_for_a_rank() -> None:
    job = Job().steps(1)
    bad = plus(job.events, matching(event="step.commit", rank=1), pid=999)
    assert verdict_of(rule, job, bad).first == "rank 1 generation 1: pid 999 acts, the owner is pid 101"


def test_a_fenced_process_acts() -> None:
    job = Job().steps(1).kill(1)
    bad = plus(job.events, matching(event="step.commit", rank=1), after_s=1.0)
    assert "after it was fenced" in verdict_of(rule, job, bad).detail


def test_too_thin_without_invitations() -> None:
    job = Job().steps(1)
    bare = without(job.events, matching(event="generation.open"))
    assert verdict_of(rule, job, bare).verdict == Verdict.INCONCLUSIVE
    assert verdict_of(rule, CommandJob().steps(1)).verdict == Verdict.NOT_APPLICABLE
