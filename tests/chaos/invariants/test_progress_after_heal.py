from chaos.invariants.finding import Verdict
from chaos.invariants.progress_after_heal import progress_after_heal as rule
from tests.chaos.histories import CommandJob, Job, matching, verdict_of, without


def test_holds_when_the_job_goes_on() -> None:
    assert verdict_of(rule, Job().steps(1).kill(1).finish()).verdict == Verdict.PASS
    assert verdict_of(rule, CommandJob().steps(2).kill(1, checkpoint=0).steps(3)).verdict == Verdict.PASS


def test_holds_when_the_fault_came_after_the_last_step() -> None:
    job = Job().steps(2)
    job.fault("process.kill", 1)
    assert verdict_of(rule, job).verdict == Verdict.PASS


def test_no_commit_after_the_only_fault() -> None:
    job = Job().steps(2)
    job.fault("process.stop", 1, undone=True)
    finding = verdict_of(rule, job, target={"kind": "recovery", "world": 2, "steps": 5})
    assert finding.first == (
        "no commit after the last fault was healed; the last one was step 1 rank 1 (generation 1, pid 101)"
    )


def test_the_job_ends_early() -> None:
    job = Job().steps(1).kill(1).finish()
    finding = verdict_of(rule, job, target={"kind": "recovery", "world": 2, "steps": 9})
    assert finding.first == "the job ended with rank 0 at step 1 of 9"


def test_a_job_that_was_silent_until_the_tool_stopped_it() -> None:
    target = {"kind": "recovery", "world": 2, "steps": 9}
    stuck = Job().steps(1).kill(1).wait(30.0)
    stuck.emit("target.exit", source="engine", code=None, signal=9, expected=True)
    assert "no commit in the last 30.0 s" in verdict_of(rule, stuck, target=target).detail
    slow = Job().steps(1).kill(1)
    slow.emit("target.exit", source="engine", code=None, signal=9, expected=True)
    assert verdict_of(rule, slow, target=target).verdict == Verdict.PASS


def test_an_undo_after_the_end_is_not_held_against_the_job() -> None:
    job = Job().steps(1).kill(1)
    job.emit("target.exit", source="engine", code=None, signal=9, expected=True)
    job.emit("fault.undone", source="engine", fault="f1")
    target = {"kind": "recovery", "world": 2, "steps": 9}
    assert verdict_of(rule, job, target=target).verdict == Verdict.PASS


def test_not_applicable_if_the_job_is_meant_to_end() -> None:
    job = Job().steps(1)
    job.fault("process.kill", 0)
    finding = verdict_of(rule, job, expect={"verdict": "PASS", "exit_code": 3})
    assert finding.verdict == Verdict.NOT_APPLICABLE


def test_too_thin_without_a_step() -> None:
    assert verdict_of(rule, Job()).verdict == Verdict.INCONCLUSIVE
    job = Job().steps(2).kill(1)
    adopted = without(job.events, matching(event="step.commit", adopted=False))
    assert (
        verdict_of(rule, job, adopted, target={"kind": "recovery", "world": 2, "steps": 9}).verdict
        == Verdict.INCONCLUSIVE
    )
