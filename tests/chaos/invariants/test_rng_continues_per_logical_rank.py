from chaos.history import History
from chaos.invariants.finding import Verdict
from chaos.invariants.rng_continues_per_logical_rank import rng_continues_per_logical_rank as rule
from tests.chaos.histories import CommandJob, Events, Job, changed, matching, verdict_of

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


def own_rng(job: CommandJob, **more: str) -> Events:
    """Each process has a stream of its own that no seed fixes."""
    return [
        {**event, "rng": f"{event['rng']}-{event['pid']}", **({"rng_parts": more} if more else {})}
        if event["event"] == "step.commit"
        else event
        for event in job.events
    ]


def test_a_scripts_unseeded_stream_says_nothing_about_its_recovery() -> None:
    job = CommandJob().steps(2).kill(1, checkpoint=0).steps(3)
    finding = verdict_of(rule, job, own_rng(job))
    assert finding.detail == "the script's random streams differ from the twin's before any fault"
    bad = changed(job.events, matching(event="step.commit", pid=job.pids[1]), rng="fresh")
    assert verdict_of(rule, job, bad).verdict == Verdict.VIOLATED


def test_streams_are_told_apart_where_the_agent_does() -> None:
    job = CommandJob().steps(2).kill(1, checkpoint=0).steps(3)
    twin = History(own_rng(job, torch="seeded", python="one"))
    run = own_rng(job, torch="seeded", python="two")
    finding = verdict_of(rule, job, run, reference=twin)
    assert finding.detail.endswith("continue the twin's streams, not seeded by the script: python")
    bad = changed(run, matching(event="step.commit", pid=job.pids[1]), rng_parts={"torch": "x"})
    assert "torch x, twin seeded" in verdict_of(rule, job, bad, reference=twin).detail


def test_our_own_runtime_is_held_to_its_seed_from_the_first_step() -> None:
    job = Job().steps(2).kill(1)
    bad = changed(job.events, matching(event="step.commit", rank=1, step=0), rng="by pid")
    assert verdict_of(rule, job, bad).verdict == Verdict.VIOLATED
