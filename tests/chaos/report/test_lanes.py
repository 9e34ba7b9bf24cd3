from __future__ import annotations

import json
from itertools import pairwise

import pytest

from chaos.report.lanes import JOB, Lanes, lanes_of
from chaos.report.stored import lines_of
from tests.chaos.histories import CommandJob, Events, Job
from tests.chaos.partitions import cut_off


def lanes(events: Events, unanswered: frozenset[str] = frozenset()) -> Lanes:
    return lanes_of(lines_of("\n".join(json.dumps(event) for event in events)), unanswered)


def test_a_lane_for_the_job_each_node_and_each_rank() -> None:
    assert lanes(Job(3).steps(1).finish().events).names == (JOB, "rank 0", "rank 1", "rank 2")
    assert lanes(cut_off()[1]).names == (JOB, *(f"{kind} {n}" for kind in ("node", "rank") for n in range(3)))


def test_phases_follow_each_other_and_end_with_the_recovery() -> None:
    job = Job(2).steps(1).kill(1).finish()
    found = lanes(job.events)
    phases = [span for span in found.spans if span.number == 0]
    assert [span.kind for span in phases] == ["detect", "fence", "regroup", "transfer", "resume"]
    for before, after in pairwise(phases):
        assert before.end_s == pytest.approx(after.start_s)
    done = next(event["t"] for event in job.events if event["event"] == "recovery.done")
    assert phases[-1].end_s == pytest.approx(done - job.events[0]["t"])


def test_a_job_that_reports_no_phases_has_detection_and_the_rest() -> None:
    found = lanes(CommandJob().steps(2).kill(1, checkpoint=0).steps(2).finish().events)
    spans = [span for span in found.spans if span.number == 0]
    assert [span.kind for span in spans] == ["detect", "restart"]
    assert spans[0].end_s - spans[0].start_s == pytest.approx(5.0, abs=0.01)


def test_a_step_lasts_from_its_begin_to_its_commit() -> None:
    found = lanes(Job(2).steps(2).finish().events)
    steps = [step for step in found.steps if step.lane == "rank 1"]
    assert [(step.step, step.outcome) for step in steps] == [(0, "commit"), (1, "commit")]
    assert all(step.start_s is not None and step.start_s < step.end_s for step in steps)


def test_adopted_and_rolled_back_steps_are_told_apart() -> None:
    found = lanes(Job(2).steps(2).kill(1).finish().events)
    outcomes = {(step.lane, step.outcome) for step in found.steps}
    assert ("rank 1", "adopted") in outcomes
    assert ("rank 0", "rollback") in outcomes
    assert ("rank 1", "rollback") not in outcomes


def test_a_fault_is_active_until_it_is_undone_or_healed() -> None:
    killed = lanes(Job(2).steps(1).kill(1).finish().events).strikes[0]
    assert killed.lanes == ("rank 1",)
    assert killed.end_s is not None
    stopped = Job().steps(1)
    stopped.fault("process.stop", 0, undone=True)
    found = lanes(stopped.steps(1).finish().events).strikes[0]
    assert found.end_s == pytest.approx(found.start_s + 0.0002, abs=0.0002)


def test_nothing_is_guessed_about_a_fault_that_no_recovery_answers() -> None:
    events = Job(2).steps(1).kill(1).finish().events
    assert lanes(events, frozenset({"f1"})).strikes[0].end_s is None


def test_a_fault_of_nodes_is_on_the_node_and_on_its_ranks() -> None:
    assert lanes(cut_off()[1]).strikes[0].lanes == ("node 1", "rank 1")


def test_a_node_is_in_the_job_until_it_is_lost() -> None:
    found = [span for span in lanes(cut_off()[1]).spans if span.kind == "member"]
    ends = {span.lane: span.end_s for span in found}
    assert ends["node 1"] < ends["node 0"] == ends["node 2"]


def test_a_fault_that_never_fired_is_not_drawn() -> None:
    job = Job().steps(1)
    job.fault("process.stop", 1)
    job.events = [
        event for event in job.events if event["event"] in ("job.start", "fault.armed", "step.commit")
    ]
    assert lanes(job.events).strikes == ()


def test_a_collective_at_which_a_fault_was_due_is_marked() -> None:
    job = Job().steps(1)
    job.emit("fault.reached", fault="f1", name="collective.skip", rank=1, collective={"op": "all_reduce"})
    marks = [mark for mark in lanes(job.events).marks if mark.kind == "collective"]
    assert [(mark.lane, mark.title) for mark in marks] == [("rank 1", "all_reduce")]
    assert marks[0].line == len(job.events)


def test_an_empty_history_has_the_jobs_lane_alone() -> None:
    assert lanes([]) == Lanes((JOB,), 0.0, (), (), (), ())
