from chaos.history import History
from chaos.invariants.finding import Verdict
from chaos.invariants.replicas_agree import replicas_agree
from tests.chaos.histories import CommandJob, Job, changed, matching, parts_at, verdict_of


def test_holds_over_a_recovery() -> None:
    assert verdict_of(replicas_agree, Job(3).steps(2).kill(1, ahead=[0]).steps(1)).verdict == Verdict.PASS


def test_two_ranks_with_different_state() -> None:
    job = Job().steps(2)
    bad = changed(
        job.events,
        matching(event="step.commit", rank=1, step=1),
        digest="x",
        parts={**parts_at(1), "buffers": "own"},
    )
    finding = verdict_of(replicas_agree, job, bad)
    assert finding.verdict == Verdict.VIOLATED
    assert finding.first == "step 1: rank 1 x differs from rank 0 00000002 in buffers"


def test_too_thin_if_only_one_rank_shows_its_state() -> None:
    job = Job().steps(1)
    bare = changed(job.events, matching(event="step.commit", rank=1), digest=None)
    assert verdict_of(replicas_agree, job, bare).verdict == Verdict.INCONCLUSIVE
    blind = changed(bare, matching(event="step.commit", rank=0), digest=None)
    assert verdict_of(replicas_agree, job, blind).detail == "no commit carries a digest"


def test_a_part_that_the_script_keeps_per_rank_is_left_out() -> None:
    job = CommandJob().steps(1).finish()
    parts = {**parts_at(0), "buffers": "rank 1's"}
    bad = changed(job.events, matching(event="step.commit", rank=1), digest="x", parts=parts)
    assert verdict_of(replicas_agree, job, bad).verdict == Verdict.VIOLATED
    finding = verdict_of(replicas_agree, job, bad, reference=History(bad))
    assert finding.detail == "1 comparisons over 1 steps, rank-local by design: buffers"
    worse = changed(bad, matching(event="step.commit", rank=1), parts={**parts, "model": "too"})
    assert verdict_of(replicas_agree, job, worse, reference=History(bad)).verdict == Verdict.VIOLATED


def test_not_applicable_to_a_script_without_digests() -> None:
    assert verdict_of(replicas_agree, CommandJob(digests=False).steps(1)).verdict == Verdict.NOT_APPLICABLE


def test_a_sharded_part_is_left_out() -> None:
    job = CommandJob().steps(1).finish()
    sharded = [{**e, "local": ["optimizer"]} if e["event"] == "step.commit" else e for e in job.events]
    own = {**parts_at(0), "optimizer": "rank 1's"}
    bad = changed(sharded, matching(event="step.commit", rank=1), digest="x", parts=own)
    assert verdict_of(replicas_agree, job, bad, reference=None).verdict == Verdict.PASS
