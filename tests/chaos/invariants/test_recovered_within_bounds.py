import pytest

from chaos.invariants.finding import Verdict
from chaos.invariants.recovered_within_bounds import recovered_within_bounds as rule
from tests.chaos.histories import CommandJob, Job, changed, matching, verdict_of, without

DONE = matching(event="recovery.done")


def test_holds_and_reports_both_clocks() -> None:
    finding = verdict_of(rule, Job(3).steps(1).kill(1).kill(2))
    assert finding.verdict == Verdict.PASS
    assert finding.detail == (
        "2 recoveries, fault to next commit median 0.172 s, worst 0.172 s; "
        "reported median 0.150 s, worst 0.150 s"
    )


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({"detect_s": 0.02}, "detected after 0.030 s, bound 0.020 s"),
        ({"recover_s": 0.1}, "reported total 0.150 s, bound 0.100 s"),
        ({"recover_s": 0.16}, "fault to next commit 0.172 s, bound 0.160 s"),
    ],
)
def test_a_bound_is_missed(bounds: dict[str, float], said: str) -> None:
    finding = verdict_of(rule, Job(3).steps(1).kill(1), bounds=bounds)
    assert finding.first == f"recovery into generation 2 (rank 1 crash): {said}"


@pytest.mark.parametrize(
    ("resume_s", "verdict"),
    [
        (0.04, Verdict.PASS),
        (0.047, Verdict.PASS),
        (0.048, Verdict.VIOLATED),
        (0.032, Verdict.VIOLATED),
    ],
)
def test_phases_add_up_within_five_percent(resume_s: float, verdict: Verdict) -> None:
    job = Job(3).steps(1).kill(1)
    bad = changed(job.events, DONE, resume_s=resume_s)
    assert verdict_of(rule, job, bad).verdict == verdict


def test_too_thin_without_phases_without_a_recovery_or_without_a_commit_after_it() -> None:
    job = Job(3).steps(1).kill(1)
    assert verdict_of(rule, job, changed(job.events, DONE, fence_s=None)).verdict == Verdict.INCONCLUSIVE
    assert verdict_of(rule, job, without(job.events, DONE)).verdict == Verdict.INCONCLUSIVE
    stuck = without(job.events, lambda e: e["event"] == "step.commit" and e["generation"] == 2)
    assert verdict_of(rule, job, stuck).detail == "no commit followed a recovery"


def test_not_applicable_without_a_fault_or_if_a_script_rode_it_out() -> None:
    assert verdict_of(rule, Job().steps(1)).verdict == Verdict.NOT_APPLICABLE
    job = CommandJob().steps(2)
    job.faults.append({"id": "f1", "name": "process.stop", "expects": "stopped", "has_undo": True})
    job.emit("fault.fired", source="engine", fault="f1", name="process.stop", rank=1, pid=201)
    assert verdict_of(rule, job.steps(3)).detail == "the target rode the faults out"


def test_a_restarted_job_is_measured_to_the_first_new_step() -> None:
    job = CommandJob().steps(3).kill(1, checkpoint=0).steps(4).finish()
    # 5 s down, two steps done again, then the first new one.
    finding = verdict_of(rule, job)
    assert finding.detail.startswith("1 recoveries, fault to next commit median 5.061 s, worst 5.061 s")
    assert verdict_of(rule, job, bounds={"recover_s": 5.0}).verdict == Verdict.VIOLATED
