"""The undo journal: what is written is on disk first, and what it says can be decided without it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from chaos.clusters import processes
from chaos.undo import finish, journal, records, rollback
from chaos.undo.records import Opening

OPENING = Opening("r1", 4_000_000, 1, "", (), 0.0)


def lines(*more: dict[str, object]) -> list[str]:
    return [json.dumps(line) for line in (OPENING.to_line(), *more)]


def undo(key: str, pid: int = 1) -> dict[str, object]:
    return {"op": "undo", "key": key, "record": {"kind": "signal.cont", "pid": pid, "start_ticks": 1}}


def test_open_records_are_those_not_undone_newest_first() -> None:
    found = records.parse(
        lines(undo("a/f1"), undo("a/f2"), {"op": "undone", "key": "a/f1", "by": "engine"}, undo("b/f1"))
    )
    assert [key for key, _ in found.pending] == ["b/f1", "a/f2"]
    assert found.opening == OPENING
    assert not found.closed


def test_a_torn_line_is_a_fault_that_was_never_injected() -> None:
    found = records.parse([*lines(undo("a/f1")), '{"op":"undo","key":"a/f2","rec'])
    assert [key for key, _ in found.pending] == ["a/f1"]
    assert found.torn == 1


def test_an_unknown_line_is_not_passed_over() -> None:
    with pytest.raises(ValueError, match="unknown journal line 'redo'"):
        records.parse(lines({"op": "redo"}))


def test_every_line_is_on_disk_when_the_call_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(fd), real(fd))[1])
    file = journal.JournalFile(tmp_path / journal.NAME)
    file.open(OPENING)
    file.undo("a/f1", {"kind": "signal.cont", "pid": 1, "start_ticks": 1})
    file.undone("a/f1", "engine")
    file.close("engine", True, [])
    assert len(synced) == 5  # four lines and the folder that holds the file
    read = journal.read(tmp_path / journal.NAME)
    assert (read.closed, read.clean, read.closed_by, read.pending) == (True, True, "engine", [])


def test_a_line_after_a_torn_one_is_still_read(tmp_path: Path) -> None:
    path = tmp_path / journal.NAME
    path.write_text("\n".join(lines(undo("a/f1"))) + '\n{"op":"und')
    journal.append(path, {"op": "undone", "key": "a/f1", "by": "reaper"})
    assert journal.read(path).pending == []


def test_finishing_ends_the_runs_processes_and_takes_its_faults_back(tmp_path: Path) -> None:
    temp = tmp_path / "temp"
    temp.mkdir()
    victim = subprocess.Popen(["sleep", "30"], env={processes.MARKER: "run-x"})
    bystander = subprocess.Popen(["sleep", "30"], env={processes.MARKER: "run-xy"})
    try:
        opening = Opening("run-x", 4_000_000, 1, str(temp), (), 0.0)
        path = tmp_path / journal.NAME
        path.write_text("\n".join(map(json.dumps, [opening.to_line(), undo("a/f1", victim.pid)])) + "\n")
        outcome = finish.finish(path, "test")
        assert outcome.left == []
        assert victim.wait(5) == -9
        assert bystander.poll() is None
        assert not temp.exists()
        assert journal.read(path).closed_by == "test"
        # Once more does no harm.
        assert finish.finish(path, "test").left == []
    finally:
        bystander.kill()
        bystander.wait()


def test_rollback_leaves_a_run_alone_that_is_still_going(tmp_path: Path) -> None:
    me = processes.read(os.getpid())
    assert me is not None
    path = tmp_path / journal.NAME
    path.write_text(json.dumps(Opening("r", me.pid, me.start_ticks, "", (), 0.0).to_line()) + "\n")
    assert rollback.roll_back(path).state == "still running"
    assert not journal.read(path).closed


def test_rollback_of_a_record_it_does_not_know_is_not_clean(tmp_path: Path) -> None:
    path = tmp_path / journal.NAME
    record = {"op": "undo", "key": "a/f1", "record": {"kind": "net.flush", "pid": 1, "start_ticks": 1}}
    path.write_text("\n".join(lines(record)) + "\n")
    rolled = rollback.roll_back(path)
    assert rolled.state == "not clean"
    assert "unknown undo record kind 'net.flush'" in rolled.left[0]


def test_journals_of_a_run_or_of_many(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / journal.NAME).write_text("\n".join(lines()) + "\n")
    assert len(rollback.journals_in(tmp_path)) == 2
    assert rollback.journals_in(tmp_path / "a") == [tmp_path / "a" / journal.NAME]


def test_shared_memory_of_a_job_that_was_not_started_here_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / journal.NAME
    for before, gone in ((None, []), ((), ["torch_1_2"])):
        opening = Opening("run-x", 4_000_000, 1, "", before, 0.0)
        assert Opening.of(json.loads(json.dumps(opening.to_line()))) == opening
        path.write_text(json.dumps(opening.to_line()) + "\n")
        removed: list[str] = []
        monkeypatch.setattr(finish.shm, "left", lambda *_: ["torch_1_2"])
        monkeypatch.setattr(finish.shm, "remove", lambda names, out=removed: out.extend(names) or [])
        finish.finish(path, "test")
        assert removed == gone
