from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from injectors import lasting
from injectors.fault import Evidence, FaultError, Victim
from injectors.storage.enospc import StorageEnospc
from injectors.storage.slow import StorageSlow
from injectors.storage.torn import StorageTorn

Plan = Callable[..., dict[str, Any]]
SIZE = 200_000
WAYS = ("open", "text", "os", "pwrite", "save", "stream", "copy", "gzip")


def run(
    rig: Any, planned: Plan, tmp_path: Path, fault: str, way: str, **params: Any
) -> tuple[Any, list[Any]]:
    """One job of three steps; the fault begins when step 0 is over, so that step 0 shows the file as it is.

    The first backward comes after the file of step 0.
    """
    params = {"path": "work/step-*.pt", "duration_s": 60.0, "mechanism": "agent", **params}
    plan = planned(fault, 0, params, step=0, phase="backward")
    outcome = rig.run(
        "writes.py", tmp_path / "work", way, 3, SIZE, world=1, faults=[plan], work=str(tmp_path)
    )
    assert outcome.codes == [0], outcome.output
    lines = [json.loads(line) for line in outcome.output.splitlines() if line.startswith("{")]
    assert len(lines) == 3, outcome.output
    assert all(line["other"] == len(b"untouched") for line in lines)
    assert lines[0]["said"] == "ok"
    return outcome, lines


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_full_device_in_every_way_of_writing(rig: Any, planned: Plan, tmp_path: Path, way: str) -> None:
    outcome, lines = run(rig, planned, tmp_path, "storage.enospc", way, after_bytes=5000)
    assert "OSError" in lines[1]["said"] or "RuntimeError" in lines[1]["said"], lines[1]
    assert lines[1]["size"] <= 5000 < lines[0]["size"]
    seen = outcome.verified["f1"]
    assert seen.proven, seen.what
    assert seen.data["error"] == "ENOSPC"
    assert seen.source == "kernel"


@pytest.mark.slow
@pytest.mark.parametrize("way", ["open", "os", "save"])
def test_a_broken_device(rig: Any, planned: Plan, tmp_path: Path, way: str) -> None:
    outcome, lines = run(rig, planned, tmp_path, "storage.eio", way)
    assert all(line["size"] == 0 for line in lines[1:])
    assert outcome.verified["f1"].data["error"] == "EIO"


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_acknowledged_and_only_a_part_is_there(rig: Any, planned: Plan, tmp_path: Path, way: str) -> None:
    outcome, lines = run(rig, planned, tmp_path, "storage.torn", way, keep_bytes=1234)
    assert [line["said"] for line in lines] == ["ok", "ok", "ok"]
    assert [line["size"] for line in lines[1:]] == [1234, 1234]
    whole = (tmp_path / "work" / "step-0.pt").read_bytes()
    torn = (tmp_path / "work" / "step-1.pt").read_bytes()
    assert len(torn) == 1234 < len(whole)
    seen = outcome.verified["f1"]
    assert seen.proven, seen.what
    assert seen.data["size_bytes"] == 1234


@pytest.mark.slow
def test_a_slow_device(rig: Any, planned: Plan, tmp_path: Path) -> None:
    outcome, lines = run(rig, planned, tmp_path, "storage.slow", "os", delay_s=0.3, bytes_per_s=1e6)
    assert [line["said"] for line in lines] == ["ok", "ok", "ok"]
    assert lines[1]["seconds"] >= 0.3 + SIZE / 1e6
    assert lines[1]["size"] == SIZE
    assert outcome.verified["f1"].proven


@pytest.mark.slow
def test_a_pattern_that_nothing_is_written_to_is_reported(rig: Any, planned: Plan, tmp_path: Path) -> None:
    outcome, lines = run(rig, planned, tmp_path, "storage.enospc", "open", path="nothing/*", duration_s=0.3)
    assert [line["said"] for line in lines] == ["ok", "ok", "ok"]
    assert outcome.fired["f1"].proven
    assert not outcome.verified["f1"].proven
    assert "nothing was written to" in outcome.verified["f1"].what


@pytest.mark.slow
def test_the_engines_word_lets_writes_through(
    rig: Any, planned: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[bool] = []
    word = tmp_path / "word"
    os.mkfifo(word)
    both_ends = os.open(word, os.O_RDWR)  # opening one end alone would wait for the other

    def on_fired(reached: Any, rig: Any) -> None:
        fault, record = rig.fault("f1"), rig.outcome.records["f1"]
        held.append(lasting.holds(record.pid, record.start_ticks, "f1"))
        for _ in range(2):
            held.append(not fault.undo(record, rig.server.send_undo).proven)
            held.append(not fault.verify_undone(record).proven)
        os.write(both_ends, b"!")

    rig.on_fired = on_fired
    # Its proof is not waited for here: what is written before the word would be a matter of luck.
    monkeypatch.setattr(StorageEnospc, "verify", lambda self, victim, fired=None: Evidence("", True))
    plan = planned(
        "storage.enospc", 0, {"path": "work/step-*.pt", "mechanism": "agent"}, step=1, phase="forward"
    )
    outcome = rig.run(
        "writes.py", tmp_path / "work", "open", 3, SIZE, word, world=1, faults=[plan], work=str(tmp_path)
    )
    os.close(both_ends)
    assert held == [True, False, False, False, False]
    lines = [json.loads(line) for line in outcome.output.splitlines() if line.startswith("{")]
    assert lines[2]["size"] == SIZE
    assert outcome.report("undone", "f1").evidence.data["reason"] == "undo"


def test_undo_after_the_victim_died(dead: Victim) -> None:
    fault = StorageTorn(path="checkpoints/*")
    record = fault.undo_record(dead)
    for _ in range(2):
        assert fault.undo(record).proven
        assert fault.verify_undone(record).proven


@pytest.mark.parametrize("path", ["", "/", "../elsewhere/*", "a/../../b"])
def test_a_path_that_leads_out_or_names_nothing_is_refused(path: str) -> None:
    with pytest.raises(FaultError, match="names no files"):
        StorageEnospc(path=path)


def test_evidence_needs_the_file_to_be_short() -> None:
    hit = {"path": "/x", "inode": 1, "size": 10, "believed": 10, "error": "ENOSPC"}
    assert not StorageEnospc(path="x").judge(hit, 10).proven
    assert StorageEnospc(path="x").judge(hit, 9).proven
    assert not StorageTorn(path="x").judge(hit, 10).proven
    assert not StorageTorn(path="x").judge(hit, None).proven
    assert not StorageSlow(path="x", delay_s=1.0).judge({**hit, "waited_s": 0.5}, 10).proven
