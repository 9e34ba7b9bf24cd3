from chaos.invariants.faults_took_effect import faults_took_effect as rule
from chaos.invariants.finding import Finding, Verdict
from tests.chaos.histories import Job, changed, matching, plus, verdict_of, without


def job() -> Job:
    found = Job().steps(2)
    found.fault("process.stop", 1, undone=True)
    return found.steps(1)


def lacking(*stages: str) -> Finding:
    return verdict_of(rule, job(), without(job().events, lambda event: event["event"] in stages))


def test_holds_with_complete_evidence() -> None:
    assert verdict_of(rule, job()).detail == "1 faults fired and verified"
    assert verdict_of(rule, Job().steps(1).kill(1)).verdict == Verdict.PASS


def test_not_applicable_without_a_fault() -> None:
    assert verdict_of(rule, Job().steps(1)).verdict == Verdict.NOT_APPLICABLE


def test_inconclusive_never_violated_and_says_what_is_missing() -> None:
    later = ("fault.fired", "fault.verified", "fault.undone", "fault.undo_verified")
    assert lacking(*later, "fault.reached").detail == (
        "fault f1 (process.stop) did not fire: its trigger never came"
    )
    assert lacking(*later).detail == "fault f1 (process.stop) was reached but did not fire"
    assert lacking(*later, "fault.reached", "fault.armed").detail == "fault f1 (process.stop) was never armed"
    assert (
        lacking("fault.verified").detail == "fault f1 (process.stop) fired, but its effect was not verified"
    )
    assert lacking("fault.undone", "fault.undo_verified").detail == "fault f1 (process.stop) was not undone"
    assert lacking("fault.undo_verified").detail == (
        "fault f1 (process.stop) was undone, but nobody verified it"
    )
    assert lacking(*later).verdict == Verdict.INCONCLUSIVE


def test_a_reported_failure_is_quoted() -> None:
    bad = without(job().events, matching(event="fault.verified"))
    bad = plus(bad, matching(event="fault.fired"), event="fault.failed", detail="state is R, not T")
    assert verdict_of(rule, job(), bad).detail.endswith("its effect was not verified: state is R, not T")


def test_evidence_that_proves_nothing_does_not_count() -> None:
    bad = changed(
        job().events,
        matching(event="fault.verified"),
        evidence={"what": "pid 101 is in state R", "proven": False},
    )
    assert verdict_of(rule, job(), bad).detail.endswith("not verified: pid 101 is in state R")
