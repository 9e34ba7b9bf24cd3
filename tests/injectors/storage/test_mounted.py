"""The same faults by a file system over the job's folder: for all code, and for all processes of the job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from injectors import helpers, signals, undo
from injectors.fault import Evidence, FaultError, Victim
from injectors.storage import mounts
from injectors.storage.enospc import StorageEnospc
from injectors.storage.torn import StorageTorn

SIZE = 200_000
# A way of writing, and whether an interposed writer would see it.
WAYS = ("open", "os", "pwrite", "save", "stream", "copy", "numpy", "child")


@pytest.fixture(autouse=True)
def fuse(require: Callable[[str], None]) -> None:
    """File systems can be mounted here."""
    require("fuse")


@pytest.fixture
def job(sleeper: Victim, tmp_path: Path) -> Iterator[Victim]:
    """A victim with a work folder that has a file in it."""
    work = tmp_path / "work"
    (work / "checkpoints").mkdir(parents=True)
    (work / "checkpoints" / "old").write_text("old")
    yield replace(sleeper, work=str(work), run="fuse-tests")
    assert "torch-chaos" not in Path("/proc/self/mountinfo").read_text()


def write(work: str, way: str) -> subprocess.CompletedProcess[str]:
    """Write one file below the folder in a process of its own; returns what it printed."""
    script = Path(__file__).parents[1] / "jobs" / "writes.py"
    command = [sys.executable, str(script), f"{work}/checkpoints", way, "1", str(SIZE)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_acknowledged_and_only_a_part_is_there(job: Victim, way: str) -> None:
    fault = StorageTorn(path="checkpoints/step-*", keep_bytes=1234, mechanism="fuse")
    record = fault.undo_record(job)
    fired = fault.inject(job, None)
    assert fired.proven, fired.what
    try:
        said = json.loads(write(job.work, way).stdout)
        seen = fault.verify(job, fired)
    finally:
        assert fault.undo(record).proven
    assert said["said"] == "ok"
    assert said["other"] == len(b"untouched")
    assert (Path(job.work) / "checkpoints" / "step-0.pt").stat().st_size == 1234
    assert seen.proven, seen.what
    assert seen.source == "kernel"


@pytest.mark.slow
@pytest.mark.parametrize("way", ["open", "numpy", "child"])
def test_a_full_device(job: Victim, way: str) -> None:
    fault = StorageEnospc(path="checkpoints/step-*", after_bytes=5000, mechanism="fuse")
    record = fault.undo_record(job)
    fired = fault.inject(job, None)
    try:
        said = json.loads(write(job.work, way).stdout)
        seen = fault.verify(job, fired)
    finally:
        assert fault.undo(record).proven
    assert said["said"] != "ok"
    assert said["size"] <= 5000
    assert seen.proven, seen.what


@pytest.mark.slow
def test_everything_else_passes_through_and_undo_can_be_repeated(job: Victim) -> None:
    work = Path(job.work)
    fault = StorageEnospc(path="checkpoints/step-*", mechanism="fuse")
    record = fault.undo_record(job)
    assert "torch-chaos" not in Path("/proc/self/mountinfo").read_text(), "the record comes before the act"
    assert fault.inject(job, None).proven
    assert mounts.is_mounted(str(record.data["tag"]), job.pid)
    assert not fault.verify_undone(record).proven
    assert sorted(os.listdir(work / "checkpoints")) == ["old"]
    assert (work / "checkpoints" / "old").read_text() == "old"
    (work / "a").write_text("first")
    with (work / "a").open("a") as file:
        file.write(" second")
    os.truncate(work / "a", 9)
    os.replace(work / "a", work / "b")
    os.link(work / "b", work / "hard")
    (work / "soft").symlink_to("b")
    os.utime(work / "b", ns=(1, 2_000_000_000))
    os.chmod(work / "b", 0o640)
    (work / "folder").mkdir()
    (work / "folder").rmdir()
    (work / "hard").unlink()
    assert os.statvfs(work).f_bsize > 0
    late = (work / "late").open("w")
    late.write("begun under it")
    late.flush()
    late.close()
    for _ in range(2):
        assert fault.undo(record).proven
        assert fault.verify_undone(record).proven
    assert (work / "b").read_text() == "first sec"
    assert (work / "soft").read_text() == "first sec"
    assert (work / "b").stat().st_mtime_ns == 2_000_000_000
    assert (work / "b").stat().st_mode & 0o777 == 0o640
    assert (work / "late").read_text() == "begun under it"
    assert sorted(os.listdir(work)) == ["b", "checkpoints", "late", "soft"]


@pytest.mark.slow
def test_a_helper_that_was_killed_leaves_no_mount_after_the_undo(job: Victim) -> None:
    fault = StorageEnospc(path="checkpoints/*", mechanism="fuse")
    record = fault.undo_record(job)
    assert fault.inject(job, None).proven
    tag = str(record.data["tag"])
    [helper] = helpers.find(tag, mounts.PROGRAM)
    signals.send(*helper, 9)
    assert signals.wait_gone(*helper, 10.0)
    assert mounts.is_mounted(tag, os.getpid())
    assert undo.carry_out(record.as_dict())["done"]
    assert fault.verify_undone(record).proven
    assert (Path(job.work) / "checkpoints" / "old").read_text() == "old"


@pytest.mark.slow
def test_it_goes_away_with_the_tool(job: Victim) -> None:
    fault = StorageEnospc(path="checkpoints/*", mechanism="fuse")
    record = fault.undo_record(job)
    assert fault.inject(job, None).proven
    [helper] = helpers.find(str(record.data["tag"]), mounts.PROGRAM)
    # What the kernel does when the tool is killed.
    stdin = helpers._started[str(record.data["tag"])].stdin
    assert stdin is not None
    stdin.close()
    assert signals.wait_gone(*helper, 10.0)
    assert undo.carry_out(record.as_dict())["done"]


@pytest.mark.slow
def test_it_ends_at_its_limit(job: Victim) -> None:
    fault = StorageEnospc(path="checkpoints/*", mechanism="fuse", duration_s=0.2)
    record = fault.undo_record(job)
    assert fault.inject(job, None).proven
    for helper in helpers.find(str(record.data["tag"]), mounts.PROGRAM):
        assert signals.wait_gone(*helper, 10.0)
    assert fault.undo(record).proven


@pytest.mark.slow
def test_nothing_written_is_no_proof(job: Victim) -> None:
    fault = StorageEnospc(path="nothing/*", mechanism="fuse", duration_s=0.3)
    record = fault.undo_record(job)
    fired = fault.inject(job, None)
    seen = fault.verify(job, fired)
    assert fault.undo(record).proven
    assert fired.proven
    assert not seen.proven


@pytest.mark.slow
def test_the_agent_that_waits_there_does_nothing_itself(rig: Any, planned: Any, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    params = {"path": "step-*.pt", "mechanism": "fuse", "keep_bytes": 100}
    fault = StorageTorn.from_params(params)
    records = []

    def on_hit(reached: Any) -> str:
        victim = replace(reached.victim(), work=str(tmp_path / "work"), run="fuse-tests")
        records.append((victim, fault.undo_record(victim), fault.inject(victim, reached.channel)))
        return "go"

    rig.on_hit = on_hit
    plan = planned("storage.torn", 0, params, step=0, phase="backward")
    outcome = rig.run("writes.py", tmp_path / "work", "numpy", 3, SIZE, world=1, faults=[plan])
    [(victim, record, fired)] = records
    assert fired.proven, fired.what
    seen: Evidence = fault.verify(victim, fired)
    assert fault.undo(record).proven
    assert seen.proven, seen.what
    sizes = [json.loads(line)["size"] for line in outcome.output.splitlines() if line.startswith("{")]
    assert sizes == [SIZE, 100, 100]
    assert [report.op for report in outcome.reports if report.op in ("fired", "undone", "failed")] == []


def test_an_absolute_path_is_left_to_the_agent(job: Victim) -> None:
    assert StorageTorn(path="/data/*").undo_record(job).kind == "storage.lasting"
    assert StorageTorn(path="data/*").undo_record(job).kind == "storage.fuse"
    assert StorageTorn(path="data/*", mechanism="agent").undo_record(job).kind == "storage.lasting"
    with pytest.raises(FaultError, match="an absolute path\n  mend: or let it take `mechanism: agent`"):
        StorageTorn(path="/data/*", mechanism="fuse").undo_record(job)


def test_a_foreign_mount_of_a_similar_name_is_not_ours(job: Victim) -> None:
    assert not mounts.is_mounted("torch-chaos", os.getpid())
    assert mounts.end("torch-chaos-none-f1-1", os.getpid(), job.work) == (
        True,
        "0 helper ended; the mount is gone",
    )
