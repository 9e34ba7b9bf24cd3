import pytest

from chaos.invariants.finding import Verdict
from chaos.invariants.healthy_ranks_keep_their_process import healthy_ranks_keep_their_process as rule
from tests.chaos.histories import CommandJob, Job, changed, matching, plus, verdict_of, without
from tests.chaos.partitions import cut_off, without_word_of


def test_holds_when_only_victims_are_replaced() -> None:
    finding = verdict_of(rule, Job(3).steps(1).kill(1, during=2).kill(1).finish())
    assert (finding.verdict, finding.detail) == (Verdict.PASS, "3 ranks, 6 processes")


def test_a_healthy_rank_comes_back_with_another_pid() -> None:
    job = Job(3).steps(1).kill(1)
    members = [{"rank": 0, "pid": 100}, {"rank": 1, "pid": 103}, {"rank": 2, "pid": 777}]
    bad = changed(job.events, matching(event="generation.open", generation=2), members=members)
    assert verdict_of(rule, job, bad).first == "rank 2 changed from pid 102 to 777, which no fault struck"


def test_a_healthy_process_ends() -> None:
    job = Job(3).steps(1).kill(1)
    bad = plus(job.events, matching(event="worker.exit"), pid=102, rank=2)
    assert verdict_of(rule, job, bad).first == "pid 102 (rank 2) ended by signal 9, and no fault struck it"
    code = plus(job.events, matching(event="worker.exit"), pid=102, rank=2, signal=None, code=1)
    assert "ended by code 1" in verdict_of(rule, job, code).detail


def test_a_fault_that_should_cause_nothing_has_no_victim() -> None:
    job = Job(3).steps(1).kill(1)
    job.faults[0]["expects"] = None
    assert verdict_of(rule, job).verdict == Verdict.VIOLATED


def test_a_killed_process_is_a_victim_even_if_no_recovery_should_follow() -> None:
    job = Job(3).steps(1).kill(1)
    assert verdict_of(rule, job, recoveries=0).verdict == Verdict.PASS


def test_a_mismatch_may_cost_any_rank() -> None:
    job = Job(3).steps(1).kill(1, name="collective.mismatch")
    bad = plus(job.events, matching(event="worker.exit"), pid=102, rank=2)
    assert verdict_of(rule, job, bad).verdict == Verdict.PASS


def test_a_rank_out_of_step_may_make_any_process_abort_but_not_end_otherwise() -> None:
    job = Job(3).steps(1).kill(1, name="collective.skip", kind="desync")
    exit_ = matching(event="worker.exit")
    assert verdict_of(rule, job, plus(job.events, exit_, pid=102, rank=2, signal=6)).verdict == Verdict.PASS
    assert verdict_of(rule, job, plus(job.events, exit_, pid=102, rank=2)).verdict == Verdict.VIOLATED


def test_a_pid_that_was_used_again() -> None:
    job = Job().steps(1)
    bad = plus(job.events, matching(event="worker.start", rank=1), start_ticks=5)
    assert verdict_of(rule, job, bad).first == "pid 101 was started 2 times: the number was used again"


def test_too_thin_if_no_process_is_named() -> None:
    job = Job().steps(1)
    nameless = [{**event, "pid": None, "members": []} for event in job.events]
    assert verdict_of(rule, job, nameless).verdict == Verdict.INCONCLUSIVE
    silent = without(job.events, matching(event="step.commit"))
    assert verdict_of(rule, job, silent).verdict == Verdict.INCONCLUSIVE


def test_not_applicable_where_the_whole_job_restarts() -> None:
    job = CommandJob().steps(1).kill(1, checkpoint=-1).steps(2)
    assert verdict_of(rule, job).verdict == Verdict.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("aimed", "pairs"),
    [(1, ("0>1", "1>0", "1>2", "2>1")), (0, ("0>1", "1>0", "1>2", "2>1")), (0, ("1>2", "2>1"))],
)
def test_ranks_of_a_node_that_was_given_up_are_victims(aimed: int, pairs: tuple[str, ...]) -> None:
    job, events = cut_off(aimed, pairs)
    assert verdict_of(rule, job, events).verdict == Verdict.PASS


def test_a_node_that_was_evicted_is_given_up_too() -> None:
    job, events = cut_off(0, ("1>2", "2>1"))
    evicted = changed(events, matching(event="node.lost"), event="node.evicted")
    assert verdict_of(rule, job, evicted).verdict == Verdict.PASS


def test_a_node_that_no_cut_way_touches_is_no_victim() -> None:
    job, events = cut_off(0, ("0>2", "2>0"))
    assert verdict_of(rule, job, events).first == "rank 1 changed from pid 101 to 103, which no fault struck"


def test_a_rank_that_is_replaced_though_its_node_was_not_given_up() -> None:
    job, events = cut_off()
    kept = without_word_of(events, "node.lost")
    assert verdict_of(rule, job, kept).first == "rank 1 changed from pid 101 to 103, which no fault struck"


def test_of_a_target_that_tells_of_no_nodes_those_on_the_aimed_one_are_victims() -> None:
    job, events = cut_off()
    silent = without_word_of(without_word_of(events, "node.lost"), "node.joined")
    assert verdict_of(rule, job, silent).verdict == Verdict.PASS
