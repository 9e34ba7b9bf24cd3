import pytest

from chaos.invariants.exit_code_is_honest import exit_code_is_honest as rule
from chaos.invariants.finding import Verdict
from tests.chaos.histories import CommandJob, Job, changed, matching, verdict_of, without

EXIT, END = matching(event="target.exit"), matching(event="job.end")
LONGER = {"kind": "recovery", "world": 2, "steps": 9}


def test_holds_for_an_honest_end_either_way() -> None:
    assert verdict_of(rule, Job().steps(2).finish()).verdict == Verdict.PASS
    assert verdict_of(rule, Job().steps(2).finish(1, "crash loop"), target=LONGER).detail == "exit code 1"
    assert verdict_of(rule, CommandJob().steps(2).finish()).verdict == Verdict.PASS


def test_holds_if_a_successor_joins_when_all_is_done() -> None:
    job = Job().steps(1).kill(1, ahead=[0]).finish()
    late = without(job.events, lambda e: e["event"] == "step.commit" and e["rank"] == 1 and e["step"] > 0)
    target = {"kind": "recovery", "world": 2, "steps": 2}
    assert verdict_of(rule, job, late, target=target).verdict == Verdict.PASS
    unverified = changed(late, matching(event="state.receive"), verified=False)
    assert verdict_of(rule, job, unverified, target=target).verdict == Verdict.VIOLATED


def test_zero_with_a_step_missing_on_one_rank() -> None:
    job = Job().steps(2).finish()
    bad = without(job.events, matching(event="step.commit", rank=1, step=1))
    assert verdict_of(rule, job, bad).first == "exit code 0, but rank 1 committed only up to step 0"


def test_failure_although_everything_was_done() -> None:
    job = Job().steps(2).finish(1)
    assert verdict_of(rule, job).first == "exit code 1, although every rank committed every planned step"
    killed = changed(Job().steps(2).finish().events, EXIT, code=None, signal=11)
    assert "signal 11, although every rank" in verdict_of(rule, job, without(killed, END)).detail


def test_failure_without_a_reason_or_two_different_codes() -> None:
    job = Job().steps(2).finish(1, reason="")
    assert verdict_of(rule, job, target=LONGER).first == "exit code 1, and no reason was given"
    other = changed(Job().steps(2).finish().events, END, exit_code=1)
    assert verdict_of(rule, job, other).first == "job.end says 1, the process ended with exit code 0"


@pytest.mark.parametrize(("code", "verdict"), [(3, Verdict.PASS), (1, Verdict.VIOLATED)])
def test_the_scenario_states_the_code(code: int, verdict: Verdict) -> None:
    job = Job().steps(2).finish(code, "no holder left")
    finding = verdict_of(rule, job, target=LONGER, expect={"verdict": "PASS", "exit_code": 3})
    assert finding.verdict == verdict


def test_too_thin() -> None:
    job = Job().steps(2)
    assert verdict_of(rule, job).detail == "nobody recorded how the target ended"
    stopped = changed(Job().steps(2).finish().events, EXIT, code=None, signal=9, expected=True)
    assert verdict_of(rule, job, stopped).detail == "the tool had to stop the target"
    meant = verdict_of(rule, job, stopped, expect={"verdict": "PASS", "exit_code": 3})
    assert meant.first == "the job did not end; the scenario expects exit code 3"
    unknown = verdict_of(rule, Job().steps(2).finish(), reference=None, target={"kind": "recovery"})
    assert unknown.detail == "the number of planned steps is not known"
