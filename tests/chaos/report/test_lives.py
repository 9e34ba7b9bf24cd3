from __future__ import annotations

from chaos.history import History
from chaos.report.lives import lives_of
from tests.chaos.histories import CommandJob, Job


def test_a_rank_has_one_holder_at_a_time() -> None:
    held = [life for life in lives_of(Job(2).steps(1).kill(1).finish().history()) if life.rank == 1]
    assert len(held) == 2
    assert held[0].end_t <= held[1].start_t
    assert held[0].pid != held[1].pid


def test_a_late_report_of_an_end_is_cut_at_the_successors_start() -> None:
    events = [
        {"t": 1.0, "event": "worker.start", "pid": 1, "rank": 0, "source": "recovery"},
        {"t": 2.0, "event": "worker.promoted", "pid": 2, "rank": 0, "source": "recovery", "node": 1},
        {"t": 2.5, "event": "worker.exit", "pid": 1, "rank": 0},
        {"t": 3.0, "event": "worker.exit", "pid": 2, "rank": 0},
    ]
    first, second = lives_of(History(events))
    assert (first.start_t, first.end_t) == (1.0, 2.0)
    assert (second.start_t, second.end_t, second.node) == (2.0, 3.0, 1)


def test_a_process_that_nothing_saw_end_lives_until_its_last_event() -> None:
    job = CommandJob().steps(3)
    last = max(event["t"] for event in job.events if event["pid"] == job.pids[0])
    assert lives_of(job.history())[0].end_t == last


def test_a_data_loaders_worker_is_no_holder() -> None:
    job = CommandJob().steps(1)
    job.emit("worker.start", rank=0, pid=999, start_ticks=1, argv=[])
    assert {life.pid for life in lives_of(job.history())} == set(job.pids.values())


def test_a_spare_holds_nothing() -> None:
    events = [{"t": 1.0, "event": "worker.start", "pid": 1, "rank": None, "role": "spare"}]
    assert lives_of(History(events)) == []
