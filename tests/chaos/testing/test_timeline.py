"""A history in a few lines."""

from __future__ import annotations

from chaos.history import History
from chaos.testing.timeline import timeline
from tests.chaos.histories import Job


def said(history: History, most: int = 40) -> list[str]:
    return [line[12:] for line in timeline(history, most)]


def test_what_happened_stands_between_the_steps() -> None:
    history = History(Job(3).steps(2).kill(1).steps(2).finish().events)
    assert said(history) == [
        "steps 0 to 1 committed",
        "fired f1 process.kill rank 1 step 2 phase backward",
        "verified f1 process.kill rank 1 step 2 phase backward",
        "rank 0 rolled step 2 back: peer lost",
        "rank 2 rolled step 2 back: peer lost",
        "detected rank 1 crash",
        # The step before is adopted by the replacement.
        "steps 1 to 2 committed",
        "recovered rank 1 in 150 ms, generation 2",
        "steps 3 to 4 committed",
        "the job ended with exit code 0",
    ]


def test_times_count_from_the_beginning() -> None:
    assert timeline(History(Job(2).steps(1).events))[0].startswith("   0.0")


def test_of_a_long_one_the_middle_is_left_out() -> None:
    job = Job(2).steps(1)
    for _ in range(30):
        job = job.kill(1).steps(1)
    lines = timeline(History(job.finish().events), most=10)
    assert len(lines) == 11
    assert "lines left out; all are in history.jsonl" in lines[5]
    assert lines[-1].endswith("the job ended with exit code 0")


def test_the_phases_of_a_recovery_are_told() -> None:
    job = Job(2).steps(1)
    for phase in ("fence", "regroup", "transfer", "resume"):
        job.emit(f"recovery.{phase}", generation=2)
    assert said(History(job.events))[-4:] == [
        "recovery: fence", "recovery: regroup", "recovery: transfer", "recovery: resume",
    ]  # fmt: skip


def test_a_line_has_an_end() -> None:
    job = Job(2).steps(1)
    job.emit("step.rollback", rank=0, step=1, reason="a" * 500)
    assert max(map(len, timeline(History(job.events)))) <= 160


def test_a_deadline_and_leftovers_are_told() -> None:
    job = Job(2).steps(1)
    job.emit("target.exit", source="engine", timed_out=True, detail="stopped after 60 s")
    job.emit("leak.check", source="engine", processes=[], shm=["/dev/shm/x"], sockets=[], files=[])
    assert said(History(job.events))[-2:] == ["stopped after 60 s", "left behind: shm: ['/dev/shm/x']"]


def test_an_empty_history_says_so() -> None:
    assert timeline(History(())) == ["(nothing happened)"]
