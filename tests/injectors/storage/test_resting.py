from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from injectors import undo
from injectors.fault import FaultError, UndoRecord, Victim
from injectors.storage import keeping
from injectors.storage.bitflip import StorageBitflip
from injectors.storage.resting import RestingFault
from injectors.storage.truncate import StorageTruncate

CONTENT = bytes(range(256)) * 16
FAULTS = [
    StorageBitflip(path="checkpoints/*.pt", at=0.5, bit=3),
    StorageTruncate(path="checkpoints/*.pt", keep=0.25),
    StorageTruncate(path="checkpoints/*.pt", keep=0.25, tail="zeros"),
]
BY_NAME = pytest.mark.parametrize("fault", FAULTS, ids=["bitflip", "cut", "zeros"])


@pytest.fixture
def job(sleeper: Victim, tmp_path: Path) -> Victim:
    """A victim whose job has two checkpoints, the newer one last changed at second 2000."""
    folder = tmp_path / "work" / "checkpoints"
    folder.mkdir(parents=True)
    for number, name in enumerate(("step-1.pt", "step-2.pt"), 1):
        (folder / name).write_bytes(CONTENT)
        os.utime(folder / name, (1000 * number, 1000 * number))
    return replace(sleeper, work=str(tmp_path / "work"), run="rest-tests")


def newest(job: Victim) -> Path:
    return Path(job.work) / "checkpoints" / "step-2.pt"


def everything(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Content and time of change of every file below a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@BY_NAME
def test_the_newest_is_damaged_and_comes_back_byte_for_byte_twice(
    job: Victim, fault: RestingFault, tmp_path: Path
) -> None:
    before, inode = everything(tmp_path), newest(job).stat().st_ino
    record = fault.undo_record(job)
    assert everything(tmp_path) == before, "the record comes before the act"
    fired = fault.inject(job, None)
    assert fired.proven, fired.what
    seen = fault.verify(job, fired)
    assert seen.proven, seen.what
    assert newest(job).read_bytes() != CONTENT
    assert newest(job).stat().st_mtime == 2000
    assert newest(job).with_name("step-1.pt").read_bytes() == CONTENT
    assert not fault.verify_undone(record).proven
    for _ in range(2):
        assert fault.undo(record).proven
        assert fault.verify_undone(record).proven
    assert everything(tmp_path) == before
    assert newest(job).stat().st_ino == inode


def test_what_each_of_them_does(job: Victim) -> None:
    damaged = []
    for fault in FAULTS:
        record = fault.undo_record(job)
        assert fault.inject(job, None).proven
        damaged.append(newest(job).read_bytes())
        assert fault.undo(record).proven
    flipped = bytearray(CONTENT)
    flipped[len(CONTENT) // 2] ^= 1 << 3
    kept = CONTENT[: len(CONTENT) // 4]
    assert damaged == [bytes(flipped), kept, kept + bytes(len(CONTENT) - len(kept))]


def test_the_oldest_can_be_picked(job: Victim) -> None:
    fault = StorageTruncate(path="checkpoints/*", pick="oldest", keep=0.0)
    record = fault.undo_record(job)
    assert fault.inject(job, None).proven
    assert newest(job).with_name("step-1.pt").read_bytes() == b""
    assert fault.undo(record).proven


@BY_NAME
class TestKilledInBetween:
    """The tool ends at each boundary; the record is carried out by someone else."""

    def test_before_anything(self, job: Victim, fault: RestingFault, tmp_path: Path) -> None:
        before = everything(tmp_path)
        result = undo.carry_out(fault.undo_record(job).as_dict())
        assert result["done"]
        assert everything(tmp_path) == before

    def test_while_the_copy_was_made(self, job: Victim, fault: RestingFault, tmp_path: Path) -> None:
        before, record = everything(tmp_path), fault.undo_record(job)
        folder = Path(record.data["kept"])
        folder.mkdir()
        (folder / keeping.COPY).write_bytes(CONTENT[:100])
        assert undo.carry_out(record.as_dict())["done"]
        assert everything(tmp_path) == before

    def test_while_it_was_damaged(self, job: Victim, fault: RestingFault, tmp_path: Path) -> None:
        before, record = everything(tmp_path), fault.undo_record(job)
        assert fault.inject(job, None).proven
        note = Path(record.data["kept"]) / keeping.NOTE
        note.write_text(json.dumps({**json.loads(note.read_text()), "damaged": ""}))
        assert undo.carry_out(record.as_dict())["done"]
        assert everything(tmp_path) == before

    def test_the_job_has_written_it_anew(self, job: Victim, fault: RestingFault) -> None:
        record = fault.undo_record(job)
        assert fault.inject(job, None).proven
        newest(job).write_bytes(b"a newer checkpoint")
        assert undo.carry_out(record.as_dict())["done"]
        assert newest(job).read_bytes() == b"a newer checkpoint"

    def test_the_job_has_removed_it(self, job: Victim, fault: RestingFault) -> None:
        record = fault.undo_record(job)
        assert fault.inject(job, None).proven
        newest(job).unlink()
        assert undo.carry_out(record.as_dict())["done"]
        assert fault.verify_undone(record).proven
        assert not newest(job).exists()


def test_a_copy_that_is_damaged_itself_is_said_and_kept(job: Victim) -> None:
    fault = FAULTS[0]
    record = fault.undo_record(job)
    assert fault.inject(job, None).proven
    copy = Path(record.data["kept"]) / keeping.COPY
    copy.write_bytes(b"?")
    result = undo.carry_out(record.as_dict())
    assert not result["done"]
    assert "the copy" in result["detail"]
    assert copy.exists()


def test_a_pattern_that_matches_nothing_is_refused(job: Victim) -> None:
    fault = StorageBitflip(path="nothing/*.pt")
    with pytest.raises(FaultError, match=r"no file in .* matches 'nothing/"):
        fault.undo_record(job)
    assert not fault.inject(job, None).proven
    assert not fault.verify(job, None).proven


def test_a_link_that_leads_out_of_the_jobs_folder_is_refused(job: Victim, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.pt"
    foreign.write_bytes(CONTENT)
    newest(job).unlink()
    newest(job).symlink_to(foreign)
    with pytest.raises(FaultError, match="outside"):
        StorageBitflip(path="checkpoints/step-2.pt").undo_record(job)
    assert foreign.read_bytes() == CONTENT


@pytest.mark.parametrize("path", ["", "/etc/*", "../other/*", "a/../../b"])
def test_a_path_outside_is_refused_at_once(path: str) -> None:
    with pytest.raises(FaultError, match="not inside the job's work folder"):
        StorageTruncate(path=path)


def test_a_job_without_a_folder_is_refused(sleeper: Victim) -> None:
    with pytest.raises(FaultError, match="has no work folder"):
        FAULTS[0].undo_record(sleeper)


def test_a_foreign_folder_of_its_name_is_refused_and_left(job: Victim) -> None:
    folder = Path(FAULTS[0].undo_record(job).data["kept"])
    folder.mkdir()
    (folder / "mine").write_text("mine")
    with pytest.raises(FaultError, match="is there already"):
        FAULTS[0].undo_record(job)
    assert not FAULTS[0].inject(job, None).proven
    assert (folder / "mine").read_text() == "mine"


def test_undo_touches_no_folder_that_is_not_ours(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a folder of torch-chaos"):
        undo.carry_out(UndoRecord("storage.kept", data={"kept": str(tmp_path)}).as_dict())
    assert tmp_path.is_dir()
