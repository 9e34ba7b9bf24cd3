"""All invariants hold on any right history; and every listed bug, put into any of them, is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaos.history import History
from chaos.invariants import Verdict
from chaos.judge import judge
from tests.chaos.histories import CommandJob, Events, Job, matching, without

WORLD = 4


@st.composite
def right_jobs(draw: st.DrawFn) -> Job:
    """A job of 4 ranks with 1 to 4 recoveries: one or two victims, some of them ahead, some at once."""
    job = Job(WORLD).steps(draw(st.integers(1, 3)))
    for _ in range(draw(st.integers(1, 4))):
        victims = draw(st.lists(st.integers(0, WORLD - 1), min_size=1, max_size=2, unique=True))
        ahead = draw(st.sets(st.integers(0, WORLD - 1), max_size=WORLD - 1))
        spare = [rank for rank in range(WORLD) if rank not in victims]
        during = draw(st.none() | st.sampled_from(spare))
        if during is not None and (ahead - set(victims)) <= {during}:
            # The survivor that is ahead must not be the second victim: the DSL resumes from survivors.
            ahead -= {during}
        kind = draw(st.sampled_from(["crash", "stopped", "hang"]))
        job.kill(*victims, ahead=ahead, during=during, kind=kind).steps(draw(st.integers(1, 3)))
    return job.finish()


@st.composite
def right_scripts(draw: st.DrawFn) -> CommandJob:
    """A torchrun job of 3 ranks that restarts 1 to 3 times from a checkpoint that it had reached."""
    job = CommandJob(3).steps(draw(st.integers(1, 4)))
    for _ in range(draw(st.integers(1, 3))):
        reached = job.step - 1
        checkpoint = draw(st.integers(-1, reached))
        job.kill(draw(st.integers(0, 2)), checkpoint).steps(reached - checkpoint + draw(st.integers(1, 3)))
    return job.finish()


COMMON = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@COMMON
@given(right_jobs())
def test_a_right_history_passes(job: Job) -> None:
    verdict = judge(job.history(), job.twin(), job.scenario())
    assert verdict.verdict == Verdict.PASS, verdict.reason


@COMMON
@given(right_scripts())
def test_a_right_restarting_script_passes(job: CommandJob) -> None:
    verdict = judge(job.history(), job.twin(), job.scenario())
    assert verdict.verdict == Verdict.PASS, verdict.reason


Bug = Callable[[Events, int], Events]


def own_commit(events: Events, pick: int) -> dict[str, object]:
    """One of the commits that a rank computed itself."""
    commits = [event for event in events if event["event"] == "step.commit" and not event["adopted"]]
    return commits[pick % len(commits)]


def swapped(events: Events, old: dict[str, object], **fields: object) -> Events:
    return [{**event, **fields} if event is old else event for event in events]


def state_of_another_step(events: Events, pick: int) -> Events:
    return swapped(events, own_commit(events, pick), digest="stale")


def fresh_rng(events: Events, pick: int) -> Events:
    return swapped(events, own_commit(events, pick), rng="fresh")


def next_batch(events: Events, pick: int) -> Events:
    return swapped(events, own_commit(events, pick), notes={"samples": [-1, -2]})


def second_owner(events: Events, pick: int) -> Events:
    commit = own_commit(events, pick)
    return [*events, {**commit, "pid": 99_999}]


def committed_twice(events: Events, pick: int) -> Events:
    commit = own_commit(events, pick)
    return [*events, {**commit, "t": float(str(commit["t"])) + 0.00001}]


def lost_commit(events: Events, pick: int) -> Events:
    """A rank leaves out a step that is neither its first nor its last and that no one redoes."""
    ranks = [event for event in events if event["event"] == "step.commit" and event["rank"] == pick % WORLD]
    victims = [e for e in ranks[1:-1] if sum(o["step"] == e["step"] for o in ranks) == 1]
    middle = [
        e
        for e in victims
        if any(o["pid"] == e["pid"] and o["step"] == e["step"] - 1 for o in ranks)
        and any(o["pid"] == e["pid"] and o["step"] == e["step"] + 1 for o in ranks)
    ]
    return [event for event in events if not middle or event is not middle[pick % len(middle)]]


def used_failed_output(events: Events, pick: int) -> Events:
    rolled = [event for event in events if event["event"] == "step.rollback"]
    if not rolled:
        return events
    chosen = rolled[pick % len(rolled)]
    return [*events, {**chosen, "t": chosen["t"] + 0.00001, "event": "step.commit", "adopted": False}]


def wrong_rank(events: Events, pick: int) -> Events:
    done = next(event for event in events if event["event"] == "recovery.done")
    named = {cause["rank"] for cause in done["causes"]}
    other = next((rank for rank in range(WORLD) if rank not in named), None)
    if other is None:
        return events
    return swapped(events, done, causes=[{**cause, "rank": other} for cause in done["causes"]])


def recovery_for_nothing(events: Events, pick: int) -> Events:
    done = [event for event in events if event["event"] == "recovery.done"][-1]
    return [*events, {**done, "t": done["t"] + 0.0001, "generation": done["generation"] + 1}]


def slow_recovery(events: Events, pick: int) -> Events:
    done = next(event for event in events if event["event"] == "recovery.done")
    return swapped(events, done, total_s=9.0, detect_s=8.9)


def phases_do_not_add_up(events: Events, pick: int) -> Events:
    done = next(event for event in events if event["event"] == "recovery.done")
    return swapped(events, done, resume_s=done["resume_s"] + 0.02)


def made_up_state(events: Events, pick: int) -> Events:
    receives = [event for event in events if event["event"] == "state.receive"]
    return swapped(events, receives[pick % len(receives)], digest="made up")


def healthy_rank_replaced(events: Events, pick: int) -> Events:
    exit_ = next(event for event in events if event["event"] == "worker.exit" and event["expected"])
    return swapped(events, exit_, expected=False, t=exit_["t"] - 0.0001)


def uninvited_member(events: Events, pick: int) -> Events:
    formed = next(event for event in events if event["event"] == "generation.formed")
    return swapped(events, formed, pid=99_999)


def said_done_too_early(events: Events, pick: int) -> Events:
    last = max(event["step"] for event in events if event["event"] == "step.commit")
    return without(events, matching(event="step.commit", step=last, rank=pick % WORLD))


def left_a_process(events: Events, pick: int) -> Events:
    check = next(event for event in events if event["event"] == "leak.check")
    return swapped(events, check, processes=[{"pid": 1234}])


BUGS: dict[str, tuple[Bug, ...]] = {
    "state_equals_twin": (state_of_another_step,),
    "replicas_agree": (state_of_another_step,),
    "rng_continues_per_logical_rank": (fresh_rng,),
    "every_sample_exactly_once": (next_batch,),
    "one_owner_per_rank_and_generation": (second_owner,),
    "recommitted_only_by_successor_with_equal_digest": (committed_twice, second_owner),
    "committed_step_is_monotone_and_gap_free": (lost_commit, committed_twice),
    "failed_collective_output_unused": (used_failed_output,),
    "right_rank_and_kind_named": (wrong_rank,),
    "one_recovery_per_fault": (recovery_for_nothing,),
    "recovered_within_bounds": (slow_recovery, phases_do_not_add_up),
    "adopted_state_was_held_by_a_member": (made_up_state,),
    "healthy_ranks_keep_their_process": (healthy_rank_replaced,),
    "members_agree_on_membership": (uninvited_member,),
    "exit_code_is_honest": (said_done_too_early,),
    "nothing_left_over": (left_a_process,),
}


@pytest.mark.parametrize(("name", "bug"), [(name, bug) for name, bugs in BUGS.items() for bug in bugs])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(job=right_jobs(), pick=st.integers(0, 1000))
def test_every_bug_is_found(name: str, bug: Bug, job: Job, pick: int) -> None:
    events = bug(job.events, pick)
    if events == job.events:
        return  # this history has no place for the bug
    verdict = judge(History(events), job.twin(), job.scenario())
    violated = {finding.name for finding in verdict.findings if finding.verdict == Verdict.VIOLATED}
    assert name in violated, f"{bug.__name__}: {verdict.reason}"
