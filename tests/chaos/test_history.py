import json
from pathlib import Path

from chaos.history import History
from chaos.records import Commit
from tests.chaos.histories import CommandJob, Job, matching, without


def test_sorted_by_time_and_torn_lines_counted() -> None:
    lines = [
        json.dumps({"t": 2.0, "event": "b"}),
        "",
        '{"t": 1.0, "event": "a"}',
        "[1]",
        '{"t": 3.0, "event": "c',
    ]
    history = History.parse(lines)
    assert [event["event"] for event in history.events] == ["a", "b"]
    assert history.torn == 2


def test_a_file_cut_inside_a_character_is_read(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b'{"t": 1.0, "event": "a"}\n{"t": 2.0, "event": "\xc3')
    history = History.load(path)
    assert (len(history.events), history.torn) == (1, 1)


def test_a_stored_history_reads_back_equal(tmp_path: Path) -> None:
    job = Job().steps(2).kill(1).finish()
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in reversed(job.events)))
    assert History.load(path).events == job.history().events


def test_commits_by_rank_and_step() -> None:
    history = Job().steps(2).kill(1).history()
    assert [commit.step for commit in history.commits(1)] == [0, 1, 1, 2]
    assert [commit.adopted for commit in history.commits(1)] == [False, False, True, False]
    assert [commit.rank for commit in history.commits_by_step[2]] == [0, 1]
    assert history.commits(9) == ()
    assert history.ranks == (0, 1)
    assert Commit.of({"event": "step.commit", "rank": 1}) is None


def test_a_faults_victim_is_whom_fired_names() -> None:
    job = Job(3)
    job.emit("fault.armed", fault="f1", name="process.kill", rank=0)
    job.emit("fault.reached", fault="f1", rank=0, pid=100, step=4, phase="backward")
    job.emit("fault.fired", fault="f1", rank=2, pid=102, step=5, evidence={"what": "SIGKILL"})
    job.emit("fault.fired", fault="f1", rank=1, pid=101)
    trail = job.history().faults["f1"]
    assert (trail.name, trail.rank, trail.pid, trail.step, trail.phase) == (
        "process.kill",
        1,
        101,
        5,
        "backward",
    )
    assert trail.evidence == {"fired": {"what": "SIGKILL"}}
    assert trail.fired_t is not None
    assert trail.verified_t is None


def test_generations_workers_and_exits() -> None:
    history = Job().steps(1).kill(1).history()
    assert history.generations[2].members == ((0, 100), (1, 102))
    assert [formed.pid for formed in history.generations[2].formed] == [100, 102]
    assert [(worker.pid, worker.rank) for worker in history.workers] == [(100, 0), (101, 1), (102, 1)]
    assert [(exit_.pid, exit_.signal, exit_.expected) for exit_ in history.exits] == [(101, 9, False)]


def test_reported_recoveries_carry_their_faults_and_our_own_time() -> None:
    one, two = Job(4).steps(1).kill(1).kill(2, during=3).history().recoveries()
    assert (one.cause, one.rank, one.generation, one.faults) == ("crash", 1, 2, ("f1",))
    assert (two.cause, two.rank, two.generation, two.faults) == ("crash+crash", 2, 4, ("f2", "f3"))
    assert one.total_s == 0.15
    assert one.measured_s is not None
    assert 0.17 < one.measured_s < 0.18


def test_derived_recoveries_end_with_the_first_new_step() -> None:
    job = CommandJob().steps(3).kill(0, checkpoint=1).steps(2).kill(1, checkpoint=2).steps(1).finish()
    one, two = job.history().recoveries()
    assert one.derived
    assert (one.faults, one.rank) == (("f1",), 0)
    assert one.detect_s is not None
    assert 5.0 < one.detect_s < 5.01
    assert one.total_s is not None
    assert 5.06 > one.total_s > 5.03
    assert (two.faults, two.total_s) == (("f2",), None)


def test_a_restart_is_seen_by_the_pids_of_commits_alone() -> None:
    job = CommandJob().steps(3).kill(0, checkpoint=1).steps(2)
    history = History(without(job.events, matching(event="worker.start")))
    assert [recovery.faults for recovery in history.recoveries()] == [("f1",)]


def test_a_data_loaders_worker_is_no_restart_and_printed_steps_have_no_pid() -> None:
    job = CommandJob().steps(3)
    job.emit("worker.start", rank=1, pid=777)
    job.steps(1).kill(0, checkpoint=1).steps(4)
    assert [recovery.faults for recovery in job.history().recoveries()] == [("f1",)]
    del job.events[next(i for i, e in enumerate(job.events) if e["pid"] == 777)]
    printed = [
        {**event, "source": "engine", "pid": 1} if event["event"] == "step.commit" else event
        for event in job.events
    ]
    (recovery,) = History(printed).recoveries()
    assert recovery.measured_s == job.history().recoveries()[0].measured_s


def test_a_late_word_of_a_dead_process_is_no_restart() -> None:
    job = CommandJob().steps(3).kill(0, checkpoint=1).steps(2)
    job.emit("step.commit", rank=1, pid=201, step=3)
    assert len(job.history().recoveries()) == 1
