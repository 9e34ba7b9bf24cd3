from collections.abc import Iterable

import pytest

from chaos import judge as judge_module
from chaos.history import History
from chaos.invariants import Verdict
from chaos.invariants.invariant import Invariant
from chaos.judge import ScenarioVerdict, exit_code, judge
from tests.chaos.histories import CommandJob, Events, Job, changed, matching, without


def judged(job: Job | CommandJob, events: Events | None = None, **scenario: object) -> ScenarioVerdict:
    return judge(History(job.events if events is None else events), job.twin(), job.scenario(**scenario))


def healed() -> Job:
    return Job(3).steps(2).kill(1).steps(1).finish()


def broken() -> Events:
    return changed(healed().events, matching(event="step.commit", rank=2, step=1), digest="x")


def test_a_right_recovery_passes() -> None:
    verdict = judged(healed())
    assert (verdict.verdict, verdict.as_expected) == (Verdict.PASS, True)
    assert verdict.reason == "18 invariants hold"
    (fault,) = verdict.faults
    assert (fault.fired, fault.verified, fault.undone, fault.rank) == (True, True, False, 1)
    assert fault.recover_s is not None
    assert verdict.step_s == pytest.approx(0.02, abs=0.002)


def test_a_right_restart_of_a_script_passes() -> None:
    job = CommandJob().steps(4).kill(1, checkpoint=1).steps(4).finish()
    assert judged(job).verdict == Verdict.PASS


def test_violated_outranks_inconclusive_which_outranks_pass() -> None:
    unverified = without(healed().events, matching(event="fault.verified"))
    verdict = judged(healed(), unverified)
    assert verdict.verdict == Verdict.INCONCLUSIVE
    assert (
        verdict.reason == "faults_took_effect: fault f1 (process.kill) fired, but its effect was not verified"
    )
    both = without(broken(), matching(event="fault.verified"))
    verdict = judged(healed(), both)
    assert verdict.verdict == Verdict.VIOLATED
    assert verdict.reason.startswith(
        "state_equals_twin: step 1 rank 2 (generation 1, pid 102): state x differs"
    )


def test_a_check_that_crashes_is_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise ZeroDivisionError("oops")

    bad = Invariant(name="bad", summary="", needs=(), needs_twin=False, sources=(), body=crash)  # type: ignore[arg-type]
    monkeypatch.setattr(judge_module, "catalogue", {"bad": bad})
    verdict = judged(healed())
    assert verdict.verdict == Verdict.INCONCLUSIVE
    assert verdict.reason == "bad: the check crashed: ZeroDivisionError('oops')"


def test_a_fault_that_nobody_knows_is_inconclusive_not_a_crash() -> None:
    verdict = judged(healed(), faults=[{"id": "f1", "name": "process.unheard"}])
    assert verdict.verdict == Verdict.INCONCLUSIVE
    assert "no fault named 'process.unheard' in the catalogue" in verdict.reason


def test_error_if_nothing_was_tested() -> None:
    job = healed()
    assert judge(History([]), None, job.scenario()).reason == "the target never started"
    failed = Job().finish(1, "the script raised at import")
    verdict = judge(failed.history(), None, failed.scenario())
    assert verdict.verdict == Verdict.ERROR
    assert verdict.reason == "the target never committed a step (exit code 1): the script raised at import"
    assert judge(job.history(), job.twin(), job.scenario(), error="no memory").reason == "no memory"


@pytest.mark.parametrize(
    ("expect", "as_expected"),
    [
        ("VIOLATED", True),
        ("PASS", False),
        ({"verdict": "VIOLATED", "invariant": "state_equals_twin"}, False),
        ({"verdict": "VIOLATED", "invariant": "state_equals_twin", "also": ["replicas_agree"]}, True),
        ({"verdict": "VIOLATED", "invariant": "every_sample_exactly_once"}, False),
        ({"verdict": "INCONCLUSIVE"}, False),
    ],
)
def test_a_scenario_may_expect_a_violation(expect: object, as_expected: bool) -> None:
    assert judged(healed(), broken(), expect=expect).as_expected == as_expected


def test_the_reason_names_what_was_not_expected_first() -> None:
    verdict = judged(healed(), broken(), expect={"verdict": "VIOLATED", "invariant": "state_equals_twin"})
    assert verdict.expected == "VIOLATED by state_equals_twin"
    assert verdict.reason.startswith("replicas_agree: ")


def test_the_reason_of_an_expected_violation_is_the_one_that_it_is_about() -> None:
    expect = {"verdict": "VIOLATED", "invariant": "replicas_agree", "also": ["state_equals_twin"]}
    assert judged(healed(), broken(), expect=expect).reason.startswith("replicas_agree: ")


def of(verdict: Verdict, as_expected: bool) -> ScenarioVerdict:
    return ScenarioVerdict(name="x", seed=1, verdict=verdict, expected="", as_expected=as_expected, reason="")


PASSED, FOUND = of(Verdict.PASS, True), of(Verdict.VIOLATED, True)
VIOLATED, MISSED = of(Verdict.VIOLATED, False), of(Verdict.PASS, False)
OPEN, ERROR = of(Verdict.INCONCLUSIVE, False), of(Verdict.ERROR, False)


@pytest.mark.parametrize(
    ("results", "flags", "code"),
    [
        ([], {}, 0),
        ([PASSED, FOUND], {}, 0),
        ([PASSED, VIOLATED, OPEN], {}, 1),
        ([PASSED, MISSED], {}, 1),
        ([PASSED, OPEN], {}, 2),
        ([PASSED, ERROR], {}, 2),
        ([PASSED, OPEN], {"errors": True}, 70),
        ([VIOLATED], {"errors": True}, 1),
        ([VIOLATED], {"errors": True, "interrupted": True}, 130),
        ([VIOLATED], {"errors": True, "interrupted": True, "leftovers": True}, 3),
        ([PASSED], {"leftovers": True}, 3),
    ],
)
def test_exit_codes(results: Iterable[ScenarioVerdict], flags: dict[str, bool], code: int) -> None:
    assert exit_code(list(results), **flags) == code
