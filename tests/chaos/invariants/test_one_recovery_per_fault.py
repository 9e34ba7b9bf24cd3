from chaos.invariants.finding import Verdict
from chaos.invariants.one_recovery_per_fault import one_recovery_per_fault as rule
from tests.chaos.histories import CommandJob, Job, changed, matching, plus, verdict_of, without

DONE = matching(event="recovery.done")


def test_holds_for_single_and_merged_recoveries() -> None:
    finding = verdict_of(rule, Job(4).steps(1).kill(1).kill(2, 0, during=3).kill(1).finish())
    assert (finding.verdict, finding.detail) == (Verdict.PASS, "3 recoveries for 5 fired faults")


def test_the_same_rank_killed_again_while_it_is_replaced() -> None:
    assert verdict_of(rule, Job(3).steps(1).kill(1, during=1)).verdict == Verdict.PASS


def test_a_recovery_without_a_fault() -> None:
    job = Job().steps(1).kill(1)
    job.faults.clear()
    bad = without(job.events, lambda event: event["event"].startswith("fault."))
    assert verdict_of(rule, job, bad).first == "recovery into generation 2 (rank 1 crash) answers no fault"


def test_two_recoveries_from_one_fault() -> None:
    job = Job().steps(1).kill(1).steps(1)
    bad = plus(job.events, DONE, after_s=0.01, generation=3)
    assert verdict_of(rule, job, bad).detail == "recovery into generation 3 (rank 1 crash) answers no fault"


def test_a_fault_without_a_recovery() -> None:
    job = Job().steps(1).kill(1)
    finding = verdict_of(rule, job, without(job.events, DONE))
    assert finding.first == "fault f1 (process.kill on rank 1) has no recovery"


def test_a_wrong_name_is_not_a_missing_recovery() -> None:
    job = Job(3).steps(1).kill(1)
    bad = changed(job.events, DONE, causes=[{"rank": 2, "kind": "crash"}])
    assert verdict_of(rule, job, bad).verdict == Verdict.PASS


def test_a_recovery_that_names_one_of_two_faults() -> None:
    job = Job(4).steps(1).kill(1, 2)
    finding = verdict_of(rule, job, changed(job.events, DONE, causes=[{"rank": 1, "kind": "crash"}]))
    assert finding.first == "fault f2 (process.kill on rank 2) has no recovery"


def test_a_fault_that_should_cause_nothing_and_does() -> None:
    job = Job(3).steps(1).kill(1)
    assert verdict_of(rule, job, recoveries=0).count == 1
    quiet = Job(3).steps(1)
    quiet.fault("collective.delay", 1, expects=None)
    quiet.steps(2)
    assert verdict_of(rule, quiet).verdict == Verdict.PASS


def test_the_scenario_states_another_number() -> None:
    job = Job(3).steps(1).kill(1)
    assert verdict_of(rule, job, recoveries=1).verdict == Verdict.PASS
    assert verdict_of(rule, job, recoveries=2).first == "1 recoveries, the scenario expects 2"
    merged = Job(3).steps(1).kill(1, during=2)
    assert verdict_of(rule, merged, recoveries=2).verdict == Verdict.PASS
    assert verdict_of(rule, merged, recoveries=1).verdict == Verdict.PASS


def test_a_job_that_stands_still_is_not_judged_here() -> None:
    job = Job(3).steps(1)
    job.fault("process.stop", 1, expects="stopped")
    assert verdict_of(rule, job).verdict == Verdict.PASS
    assert verdict_of(rule, job.steps(1)).verdict == Verdict.PASS
    assert verdict_of(rule, job.steps(1)).verdict == Verdict.VIOLATED
    meant = verdict_of(rule, job, recoveries=3, expect={"verdict": "PASS", "exit_code": 3})
    assert meant.verdict == Verdict.PASS


def test_too_thin_if_no_fault_fired() -> None:
    job = Job(3).steps(1).kill(1)
    bare = without(job.events, matching(event="fault.fired"))
    assert verdict_of(rule, job, bare).verdict == Verdict.INCONCLUSIVE


def test_a_script_may_ride_a_fault_out_unless_the_scenario_says_otherwise() -> None:
    job = CommandJob().steps(2)
    job.faults.append({"id": "f1", "name": "process.stop", "expects": "stopped", "has_undo": True})
    for stage in ("fired", "verified", "undone", "undo_verified"):
        job.emit(f"fault.{stage}", source="engine", fault="f1", name="process.stop", rank=1, pid=201)
    job.steps(3)
    assert verdict_of(rule, job).verdict == Verdict.PASS
    assert verdict_of(rule, job, recoveries=1).verdict == Verdict.VIOLATED


def test_a_restart_without_a_fault() -> None:
    job = CommandJob().steps(3).kill(1, checkpoint=1).steps(2).finish()
    assert verdict_of(rule, job).verdict == Verdict.PASS
    unprovoked = without(job.events, lambda event: event["event"].startswith("fault."))
    job.faults.clear()
    assert verdict_of(rule, job, unprovoked).verdict == Verdict.VIOLATED
