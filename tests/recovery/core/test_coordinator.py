"""The coordinator, driven by hand: no process, no clock."""

from __future__ import annotations

from typing import TypeVar

import pytest

from recovery.core import messages as m
from recovery.core.config import Config
from recovery.core.coordinator import Coordinator, Phase, ProtocolError

A = TypeVar("A")


class Job:
    """A coordinator with its actions collected, and the shell's part played by short methods."""

    def __init__(self, world: int = 4, **limits: float) -> None:
        self.now = 0.0
        self.coordinator = Coordinator(Config(world_size=world, **limits))  # type: ignore[arg-type]
        self.actions: list[m.Action] = self.coordinator.begin(self.now)
        self.taken = list(self.actions)

    def tell(self, event: m.Event, after_s: float = 0.0) -> list[m.Action]:
        self.now += after_s
        self.taken = self.coordinator.handle(event, self.now)
        self.actions += self.taken
        return self.taken

    def of(self, kind: type[A]) -> list[A]:
        return [action for action in self.actions if isinstance(action, kind)]

    def proc(self, rank: int) -> int:
        return self.coordinator.slots[rank].proc

    @property
    def ranks(self) -> range:
        return range(len(self.coordinator.slots))

    def ready(self, rank: int, version: int | None, digest: str = "d", finished: bool = False) -> None:
        left = self.coordinator.slots[rank].opened
        self.tell(m.Ready(self.proc(rank), version, digest, finished, left))

    def form(self) -> None:
        for rank in self.ranks:
            self.tell(m.Formed(self.proc(rank), self.coordinator.generation))

    def commit(self, version: int, *ranks: int) -> None:
        for rank in ranks or self.ranks:
            self.tell(m.Committed(self.proc(rank), self.coordinator.generation, version))

    def run_to(self, version: int) -> Job:
        for rank in self.ranks:
            self.ready(rank, None)
        self.form()
        self.commit(version)
        return self

    def kill(self, rank: int) -> list[m.Action]:
        return self.tell(m.Exited(self.proc(rank), None, 9))

    def heal(self, version: int) -> None:
        """Everyone who is not ready comes back, with the survivors' state at `version`."""
        for rank in self.ranks:
            if self.coordinator.slots[rank].status.value in ("returning", "starting"):
                holds = self.coordinator.slots[rank].holds
                self.ready(rank, version if holds else None)
        self.form()


def test_a_spare_is_noted_only_with_the_order_to_start_it() -> None:
    """All have done the last step before one of them could say that it had formed."""
    job = Job(spares=1)
    for rank in job.ranks:
        job.ready(rank, None)
    for rank in job.ranks:
        job.ready(rank, 1, finished=True)
    assert job.coordinator.phase is Phase.LEAVING
    assert set(job.coordinator.spares) <= {start.proc for start in job.of(m.Start)}


def test_first_generation_takes_rank_zeros_state() -> None:
    job = Job()
    assert [(a.proc, a.rank) for a in job.of(m.Start)] == [(1, 0), (2, 1), (3, 2), (4, 3)]
    for rank in range(3):
        job.ready(rank, None, "same")
    assert not job.of(m.Open)
    job.ready(3, None, "other")
    (opening,) = job.of(m.Open)
    assert (opening.generation, opening.version, opening.genesis) == (1, 0, True)
    assert (opening.holders, opening.receivers) == ((0,), (3,))


def test_a_spare_is_started_once_the_job_runs_and_promoted_at_a_loss() -> None:
    job = Job().run_to(3)
    spare = job.of(m.Start)[-1]
    assert spare.rank is None
    lost = job.proc(2)
    taken = job.kill(2)
    kinds = [type(action) for action in taken]
    assert kinds == [m.Note, m.Release, m.Release, m.Release, m.Note, m.Promote]
    assert taken[-1] == m.Promote(spare.proc, 2)
    assert lost not in {a.proc for a in taken if isinstance(a, m.Release)}
    job.heal(3)
    opening = job.of(m.Open)[-1]
    assert (opening.generation, opening.holders, opening.receivers) == (2, (0, 1, 3), (2,))
    job.commit(4)
    (done,) = job.of(m.Recovered)
    assert [(c.rank, c.kind) for c in done.causes] == [(2, "crash")]


def test_phases_of_a_recovery_add_up() -> None:
    job = Job().run_to(3)
    job.tell(m.Exited(job.proc(1), None, 9, since=job.now - 0.03))
    job.now += 0.05
    for rank in job.ranks:
        job.ready(rank, None if rank == 1 else 3)
    job.now += 0.04
    for rank in job.ranks:
        job.tell(m.Formed(job.proc(rank), 2, transfer_s=0.01, bytes_received=100 if rank == 1 else 0))
    job.now += 0.02
    job.commit(4)
    (done,) = job.of(m.Recovered)
    phases = (done.detect_s, done.fence_s, done.regroup_s, done.transfer_s, done.resume_s)
    assert phases == pytest.approx((0.03, 0.0, 0.08, 0.01, 0.02))
    assert sum(phases) == pytest.approx(job.now - done.since)
    assert done.bytes_received == 100


def test_a_rank_is_not_given_away_before_its_process_is_dead() -> None:
    job = Job(stop_grace_s=0.1).run_to(3)
    job.tell(m.Stopped(job.proc(0)))
    assert job.tell(m.Tick(), after_s=0.05) == []
    taken = job.tell(m.Tick(), after_s=0.06)
    order = [type(a) for a in taken]
    assert order[:3] == [m.Note, m.Fence, m.Release]
    assert not job.of(m.Promote)
    job.tell(m.Exited(job.proc(0), None, 9))
    assert job.of(m.Promote)


def test_a_short_stop_is_forgiven() -> None:
    job = Job(stop_grace_s=0.1).run_to(3)
    job.tell(m.Stopped(job.proc(0)))
    job.tell(m.Continued(job.proc(0)), after_s=0.05)
    assert job.tell(m.Tick(), after_s=1.0) == []
    assert job.coordinator.phase is Phase.RUNNING


def test_those_behind_adopt_the_newest_committed_version() -> None:
    job = Job().run_to(3)
    job.kill(3)
    job.ready(0, 4, "new")
    job.ready(1, 3, "old")
    job.ready(2, 4, "new")
    job.ready(3, None)
    opening = job.of(m.Open)[-1]
    assert (opening.version, opening.holders, opening.receivers) == (4, (0, 2), (1, 3))


def test_a_corrupt_minority_adopts_from_the_majority() -> None:
    job = Job().run_to(3)
    job.kill(3)
    for rank, digest in enumerate(("good", "bad", "good")):
        job.ready(rank, 3, digest)
    job.ready(3, None)
    opening = job.of(m.Open)[-1]
    assert (opening.holders, opening.receivers) == ((0, 2), (1, 3))
    assert any(note.name == "recovery.divergence" for note in job.of(m.Note))


def test_replicas_without_a_majority_end_the_job() -> None:
    job = Job().run_to(3)
    job.kill(3)
    job.kill(2)
    job.ready(0, 3, "one")
    job.ready(1, 3, "other")
    job.ready(2, None)
    job.ready(3, None)
    (end,) = job.of(m.End)
    assert (end.code, end.reason) == (1, "replicas disagree")


def test_a_second_loss_during_recovery_joins_it() -> None:
    job = Job(spares=0).run_to(3)
    job.kill(1)
    for rank in (0, 2):
        job.ready(rank, 3)
    job.kill(3)
    job.heal(3)
    job.commit(4)
    (done,) = job.of(m.Recovered)
    assert [(c.rank, c.kind) for c in done.causes] == [(1, "crash"), (3, "crash")]
    assert job.coordinator.restarts == 2


@pytest.mark.parametrize("victim", [0, 2])
def test_a_loss_while_forming_opens_the_next_generation(victim: int) -> None:
    job = Job(spares=2).run_to(3)
    job.kill(2)
    for rank in job.ranks:
        job.ready(rank, None if rank == 2 else 3)
    assert job.coordinator.phase is Phase.FORMING
    job.tell(m.Formed(job.proc(1), 2))
    job.kill(victim)
    job.heal(3)
    assert job.of(m.Open)[-1].generation == 3
    job.commit(4)
    assert len(job.of(m.Recovered)) == 1


def test_when_every_holder_is_gone_the_job_ends_with_that_error() -> None:
    job = Job(world=2).run_to(5)
    job.kill(0)
    assert not job.of(m.End)
    job.kill(1)
    (end,) = job.of(m.End)
    assert (end.code, end.reason) == (3, "state lost")
    assert job.tell(m.Tick(), after_s=1000) == []


def test_a_failed_collective_is_explained_by_the_loss_that_follows() -> None:
    job = Job().run_to(3)
    job.tell(m.Failed(job.proc(0), 1, "collective_error", "connection reset"))
    job.kill(2)
    job.heal(3)
    job.commit(4)
    (done,) = job.of(m.Recovered)
    assert [(c.rank, c.kind) for c in done.causes] == [(2, "crash")]
    assert job.coordinator.restarts == 1


def test_a_failed_collective_alone_regroups_without_replacing_anyone() -> None:
    job = Job().run_to(3)
    before = [job.proc(rank) for rank in job.ranks]
    job.tell(m.Failed(job.proc(0), 1, "collective_error", "connection reset"))
    job.heal(3)
    job.commit(4)
    assert [job.proc(rank) for rank in job.ranks] == before
    assert job.of(m.Recovered)[0].causes[0].kind == "collective_error"


def test_words_of_a_replaced_process_do_not_count() -> None:
    job = Job().run_to(3)
    old = job.proc(2)
    job.kill(2)
    assert job.tell(m.Ready(old, 99, "stale")) == []
    assert job.tell(m.Committed(old, 1, 99)) == []
    assert job.coordinator.version == 3


def test_a_stale_generation_is_ignored() -> None:
    job = Job().run_to(3)
    job.kill(2)
    job.heal(3)
    assert job.tell(m.Failed(job.proc(0), 1, "collective_error", "late")) == []
    assert job.coordinator.phase is Phase.RUNNING


def test_a_survivor_that_does_not_come_back_is_fenced() -> None:
    job = Job(cold_limit_s=5).run_to(3)
    job.kill(2)
    taken = job.tell(m.Tick(), after_s=31)
    assert {a.proc for a in taken if isinstance(a, m.Fence)} == {job.proc(r) for r in (0, 1, 3)}


def test_a_declared_long_phase_is_waited_for() -> None:
    job = Job().run_to(3)
    job.tell(m.Busy(job.proc(0), job.now + 100))
    job.kill(2)
    taken = job.tell(m.Tick(), after_s=60)
    assert job.proc(0) not in {a.proc for a in taken if isinstance(a, m.Fence)}


def test_release_is_repeated_until_a_survivor_is_out() -> None:
    job = Job().run_to(3)
    job.kill(2)
    job.ready(0, 3)
    taken = job.tell(m.Tick(), after_s=0.02)
    assert {a.proc for a in taken if isinstance(a, m.Release)} == {job.proc(1), job.proc(3)}


def test_the_global_budget_stops_flapping() -> None:
    job = Job(max_restarts=3).run_to(1)
    for version in range(1, 5):
        if job.coordinator.phase is Phase.ENDED:
            break
        job.kill(version % 4)
        if job.coordinator.phase is not Phase.ENDED:
            job.heal(version)
            job.commit(version + 1)
    (end,) = job.of(m.End)
    assert (end.code, end.reason) == (1, "restart budget exhausted")
    assert "4 restarts, 3 allowed; last: rank 0: crash (signal 9)" in end.detail


def test_a_deterministic_crash_ends_with_its_cause() -> None:
    job = Job(max_same_failure=3).run_to(7)
    for _ in range(3):
        job.tell(m.Exited(job.proc(2), 1, None, "ValueError: bad batch"))
        job.heal(7)
    (end,) = job.of(m.End)
    assert (end.code, end.reason) == (1, "deterministic failure")
    assert end.detail == "3 times at step 7: rank 2: exception (ValueError: bad batch)"


def test_a_script_that_fails_before_its_first_step_is_not_retried() -> None:
    job = Job()
    job.tell(m.Exited(job.proc(1), 1, None, "ImportError: no module named x"))
    (end,) = job.of(m.End)
    assert (end.code, end.reason) == (1, "script failed")
    assert end.detail == "rank 1: ImportError: no module named x"


def test_a_kill_before_the_first_step_is_replaced() -> None:
    job = Job()
    job.kill(1)
    assert not job.of(m.End)
    assert job.of(m.Start)[-1].rank == 1


def test_everyone_leaves_together() -> None:
    job = Job().run_to(9)
    for rank in range(3):
        job.ready(rank, 9, finished=True)
    assert not job.of(m.Leave)
    job.ready(3, 9, finished=True)
    assert len(job.of(m.Leave)) == 1
    for rank in job.ranks:
        job.tell(m.Exited(job.proc(rank), 0, None))
    assert job.of(m.End) == [m.End(0, "finished", "9 steps committed")]


def test_a_loss_while_others_have_finished_is_healed_from_them() -> None:
    job = Job().run_to(8)
    for rank in range(3):
        job.ready(rank, 9, finished=True)
    job.kill(3)
    job.ready(3, None)
    opening = job.of(m.Open)[-1]
    assert (opening.version, opening.holders, opening.receivers) == (9, (0, 1, 2), (3,))
    job.form()
    for rank in job.ranks:
        job.ready(rank, 9, finished=True)
    assert len(job.of(m.Leave)) == 1
    assert len(job.of(m.Recovered)) == 1


def test_a_failure_after_the_last_step_is_told_honestly() -> None:
    job = Job().run_to(9)
    for rank in job.ranks:
        job.ready(rank, 9, finished=True)
    job.tell(m.Exited(job.proc(0), 1, None, "OSError: disk full"))
    assert job.of(m.End) == [m.End(1, "failed after the last step", "rank 0: OSError: disk full")]


def test_an_accused_rank_is_fenced_and_a_desynchronised_one_is_not() -> None:
    job = Job().run_to(3)
    job.tell(m.Accused(job.proc(1), 1, "desync", "other sequence"))
    assert not job.of(m.Fence)
    job.heal(3)
    job.commit(4)
    job.tell(m.Accused(job.proc(1), 2, "hang", "late"))
    assert [fence.proc for fence in job.of(m.Fence)] == [job.proc(1)]


def test_a_ready_without_a_reason_is_a_bug_of_the_runtime() -> None:
    job = Job().run_to(3)
    with pytest.raises(ProtocolError, match="left generation 1 without a reason"):
        job.ready(0, 3)


def test_a_report_that_comes_twice_counts_once() -> None:
    job = Job().run_to(3)
    job.kill(2)
    job.ready(0, 3)
    again = m.Ready(job.proc(0), 3, "d", False, 1, "collective_error")
    assert job.tell(again) == []
    job.heal(3)
    assert job.coordinator.generation == 2
    assert job.tell(again) == []
    assert job.coordinator.phase is Phase.RUNNING


def test_who_says_why_it_left_need_not_have_been_heard_to_fail() -> None:
    job = Job().run_to(3)
    job.tell(m.Ready(job.proc(1), 3, "d", False, 1, "collective_error"))
    assert job.coordinator.phase is Phase.GATHERING
    job.heal(3)
    job.commit(4)
    assert [c.kind for c in job.of(m.Recovered)[0].causes] == ["collective_error"]


def test_a_first_commit_may_be_heard_before_the_last_word_of_forming() -> None:
    job = Job().run_to(3)
    job.kill(2)
    for rank in job.ranks:
        job.ready(rank, None if rank == 2 else 3)
    for rank in (0, 1, 2):
        job.tell(m.Formed(job.proc(rank), 2))
    job.commit(4, 0)
    assert not job.of(m.Recovered)
    job.tell(m.Formed(job.proc(3), 2))
    assert len(job.of(m.Recovered)) == 1
    assert job.coordinator.healing is None


def test_the_first_state_outlives_the_first_who_said_that_it_had_it() -> None:
    job = Job()
    for rank in job.ranks:
        job.ready(rank, None)
    job.tell(m.Formed(job.proc(0), 1))
    job.kill(0)
    assert not job.of(m.End)
    job.ready(0, None)
    for rank in (1, 2, 3):
        job.ready(rank, 0)
    assert job.of(m.Open)[-1].holders == (1, 2, 3)


def test_the_first_state_is_made_again_only_if_somebody_proves_that_nothing_was_committed() -> None:
    job = Job(world=2)
    for rank in job.ranks:
        job.ready(rank, None)
    job.tell(m.Formed(job.proc(0), 1))
    job.kill(0)
    job.ready(1, None)  # it was a member of generation 1 and never came to hold the state
    job.ready(0, None)
    assert job.of(m.Open)[-1].genesis
    assert not job.of(m.End)


def test_each_broken_generation_of_one_recovery_counts() -> None:
    job = Job(max_restarts=3).run_to(3)
    for generation in range(1, 5):
        job.tell(m.Failed(job.proc(0), generation, "collective_error", "connection reset"))
        job.tell(m.Failed(job.proc(1), generation, "collective_error", "connection reset"))
        if job.coordinator.phase is not Phase.ENDED:
            job.heal(3)
    (end,) = job.of(m.End)
    assert (end.code, end.reason) == (1, "restart budget exhausted")
    assert end.detail.startswith("4 restarts, 3 allowed")


def test_a_loss_explains_the_collective_that_broke_in_the_generation_before() -> None:
    job = Job().run_to(3)
    job.tell(m.Failed(job.proc(0), 1, "collective_error", "connection reset"))
    for rank in job.ranks:
        job.ready(rank, 3)
    job.kill(2)  # it had died long ago, while it was ready
    job.heal(3)
    job.commit(4)
    assert [(c.rank, c.kind) for c in job.of(m.Recovered)[0].causes] == [(2, "crash")]


def test_the_reason_may_be_heard_after_the_break_was_felt() -> None:
    job = Job().run_to(3)
    job.tell(m.Failed(job.proc(0), 1, "collective_error", "connection reset"))
    job.tell(m.Failed(job.proc(3), 1, "desync", "another sequence", suspect=3))
    job.heal(3)
    job.commit(4)
    assert [(c.rank, c.kind) for c in job.of(m.Recovered)[0].causes] == [(3, "desync")]


def late_to_finish() -> Job:
    """Rank 3 has not finished long after the others have, and was just released."""
    job = Job(cold_limit_s=5).run_to(9)
    for rank in range(3):
        job.ready(rank, 9, finished=True)
    assert job.tell(m.Tick(), after_s=4.9) == []
    job.tell(m.Tick(), after_s=0.2)
    assert job.of(m.Release)
    assert not job.of(m.Fence)
    return job


def test_a_rank_that_hangs_after_the_others_have_finished_is_fenced() -> None:
    job = late_to_finish()
    job.tell(m.Tick(), after_s=4.9)
    assert not job.of(m.Fence)
    job.tell(m.Tick(), after_s=0.2)
    assert [fence.proc for fence in job.of(m.Fence)] == [job.proc(3)]
    job.kill(3)
    job.heal(9)
    job.commit(10)
    # One fault, named once.
    assert [(c.rank, c.kind) for c in job.of(m.Recovered)[0].causes] == [(3, "hang")]
    assert job.coordinator.restarts == 1


def test_a_rank_that_only_waited_for_one_that_finished_and_died_keeps_its_process() -> None:
    job = late_to_finish()
    job.ready(3, 8)
    assert not job.of(m.Fence)
    assert [(opening.version, opening.receivers) for opening in job.of(m.Open)][-1] == (9, (3,))


def test_the_last_words_of_one_that_has_left_change_nothing() -> None:
    job = Job().run_to(9)
    for rank in job.ranks:
        job.ready(rank, 9, finished=True)
    job.tell(m.Exited(job.proc(0), 0, None))
    assert job.tell(m.Ready(job.proc(0), 9, "d", True, 1)) == []


def test_it_says_when_time_will_matter() -> None:
    job = Job(stop_grace_s=0.1, form_limit_s=10.0).run_to(3)
    assert job.coordinator.due() == float("inf")
    job.tell(m.Stopped(job.proc(0)))
    assert job.coordinator.due() == pytest.approx(job.now + 0.1)
    job.tell(m.Continued(job.proc(0)))
    job.kill(1)
    for rank in job.ranks:
        job.ready(rank, None if rank == 1 else 3)
    assert job.coordinator.due() == pytest.approx(job.now + 10.0)


def test_state_is_not_lost_with_its_last_source_while_a_receiver_may_have_it() -> None:
    job = Job(world=2).run_to(1)
    job.kill(1)
    job.ready(0, 1)
    job.ready(1, None)
    assert job.coordinator.generation == 2
    job.kill(0)
    assert not job.of(m.End)
    job.tell(m.Ready(job.proc(1), 1, "d", False, 2, "collective_error"))
    job.ready(0, None)
    assert job.of(m.Open)[-1].holders == (1,)


def test_it_is_lost_when_the_receiver_says_that_it_has_nothing() -> None:
    job = Job(world=2).run_to(1)
    job.kill(1)
    job.ready(0, 1)
    job.ready(1, None)
    job.kill(0)
    job.tell(m.Ready(job.proc(1), None, None, False, 2, "collective_error"))
    job.ready(0, None)
    (end,) = job.of(m.End)
    assert (end.code, end.reason) == (3, "state lost")
