from chaos.invariants.finding import Verdict
from chaos.invariants.right_rank_and_kind_named import right_rank_and_kind_named as rule
from tests.chaos.histories import CommandJob, Job, changed, matching, verdict_of, without
from tests.chaos.partitions import cut_off

DONE = matching(event="recovery.done")


def test_holds_for_single_and_merged_recoveries() -> None:
    finding = verdict_of(rule, Job(4).steps(1).kill(1).kill(2, 0, during=3))
    assert (finding.verdict, finding.detail) == (Verdict.PASS, "2 recoveries name their faults")


def test_the_wrong_rank() -> None:
    job = Job(3).steps(1).kill(1)
    finding = verdict_of(rule, job, changed(job.events, DONE, causes=[{"rank": 2, "kind": "crash"}]))
    assert finding.first == (
        "recovery into generation 2 (rank 2 crash): cause rank 2 crash is none of: process.kill on rank 1"
    )
    assert finding.last == "recovery into generation 2 (rank 2 crash): process.kill on rank 1 is not named"


def test_the_wrong_kind() -> None:
    job = Job(3).steps(1).kill(1)
    bad = changed(job.events, DONE, causes=[{"rank": 1, "kind": "hang"}])
    assert verdict_of(rule, job, bad).verdict == Verdict.VIOLATED


def test_a_healthy_rank_is_accused_beside_the_victim() -> None:
    job = Job(3).steps(1).kill(1)
    causes = [{"rank": 1, "kind": "crash"}, {"rank": 0, "kind": "collective_error"}]
    finding = verdict_of(rule, job, changed(job.events, DONE, causes=causes))
    assert "cause rank 0 collective_error is none of" in finding.detail


def test_a_mismatch_may_be_seen_on_any_rank() -> None:
    job = Job(3).steps(1).kill(1, name="collective.mismatch", kind="desync")
    bad = changed(job.events, DONE, causes=[{"rank": 2, "kind": "crash"}])
    assert verdict_of(rule, job, bad).verdict == Verdict.PASS


def test_a_rank_out_of_step_may_make_any_process_abort() -> None:
    job = Job(3).steps(1).kill(1, name="collective.skip", kind="desync")
    abort = {"rank": 2, "kind": "crash", "detail": "signal 6"}
    beside = changed(job.events, DONE, causes=[{"rank": 1, "kind": "desync"}, abort])
    assert verdict_of(rule, job, beside).verdict == Verdict.PASS
    own = {**abort, "rank": 1}
    assert verdict_of(rule, job, changed(job.events, DONE, causes=[own])).verdict == Verdict.PASS
    instead = verdict_of(rule, job, changed(job.events, DONE, causes=[abort]))
    assert (
        instead.first == "recovery into generation 2 (rank 2 crash): collective.skip on rank 1 is not named"
    )
    killed = [{"rank": 1, "kind": "desync"}, {**abort, "detail": "signal 9"}]
    assert verdict_of(rule, job, changed(job.events, DONE, causes=killed)).verdict == Verdict.VIOLATED


def test_a_failed_collective_may_name_no_rank_but_not_a_wrong_one() -> None:
    job = Job(3).steps(1).kill(1, name="collective.error", kind="collective_error")
    nameless = changed(job.events, DONE, causes=[{"kind": "collective_error"}])
    assert verdict_of(rule, job, nameless).verdict == Verdict.PASS
    wrong = changed(job.events, DONE, causes=[{"rank": 2, "kind": "collective_error"}])
    assert verdict_of(rule, job, wrong).verdict == Verdict.VIOLATED
    crash = Job(3).steps(1).kill(1)
    unnamed = changed(crash.events, DONE, causes=[{"kind": "crash"}])
    assert verdict_of(rule, crash, unnamed).verdict == Verdict.VIOLATED


def test_too_thin_without_a_report_and_not_applicable_without_a_fault() -> None:
    job = Job(3).steps(1).kill(1)
    assert verdict_of(rule, job, without(job.events, DONE)).verdict == Verdict.INCONCLUSIVE
    assert verdict_of(rule, Job().steps(1)).verdict == Verdict.NOT_APPLICABLE
    ends = verdict_of(rule, job, without(job.events, DONE), expect={"verdict": "PASS", "exit_code": 3})
    assert ends.detail == "the job is meant to end, not to recover"
    assert verdict_of(rule, CommandJob().steps(1)).verdict == Verdict.NOT_APPLICABLE


def test_a_lost_node_is_named_by_its_number() -> None:
    job, events = cut_off()
    assert verdict_of(rule, job, events).verdict == Verdict.PASS
    # The other end of a way that was cut may be the one that is given up.
    job, events = cut_off(0, ("1>2", "2>1"))
    assert verdict_of(rule, job, events).verdict == Verdict.PASS


def test_a_lost_node_that_the_fault_did_not_touch() -> None:
    job, events = cut_off(0, ("0>2", "2>0"))
    finding = verdict_of(rule, job, events)
    assert finding.verdict == Verdict.VIOLATED
    assert "cause rank None node_lost is none of: net.partition on rank 0" in finding.detail


def test_nodes_that_cannot_reach_each_other_are_named_beside_those_that_wait() -> None:
    job, events = cut_off(0, ("1>2", "2>1"))
    waits = {"rank": None, "kind": "hang", "detail": "all ranks are inside collective 14 for 3.05 s"}
    apart = {"rank": None, "kind": "unreachable", "detail": "nodes that can't reach each other: 1 and 2"}
    both = changed(events, DONE, causes=[waits, apart])
    assert verdict_of(rule, job, both).verdict == Verdict.PASS
    # Only that everyone waits names nobody, and these two can reach each other.
    assert "is not named" in verdict_of(rule, job, changed(events, DONE, causes=[waits])).detail
    wrong = {**apart, "detail": "nodes that can't reach each other: 1 and 3"}
    assert verdict_of(rule, job, changed(events, DONE, causes=[waits, wrong])).verdict == Verdict.VIOLATED
