"""The original of a file that is damaged at rest: kept aside, and put back byte for byte.

The order is what makes it safe to be killed at any point: copy, note, damage, note. A folder without a note
means that nothing was damaged. The note says what the file was and what it was damaged to, so that a file
which the job has written anew since is left alone. Standard library only: the reaper uses it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

PREFIX = "torch-chaos-kept-"
NOTE, PARTIAL, COPY = "note.json", "note.partial", "original"
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Note:
    """What was done to which file. Digests are SHA-256, hex; `damaged` is "" until the damage is complete."""

    path: str
    original: str
    size: int
    mtime_ns: int
    damaged: str = ""


def folder_for(work: Path, run: str, fault: str) -> Path:
    """Where an original is kept: beside the job's folder, out of reach of the job's own patterns."""
    return work.parent / f"{PREFIX}{run or 'none'}-{work.name}-{fault}"


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def damage(path: Path, folder: Path, act: Callable[[BinaryIO], None]) -> Note:
    """Keep a file aside, then let `act` change it in place; the time of its last change is kept too.

    Raises:
        OSError: it could not be kept or changed; if it was changed, the note says so.
    """
    seen = path.stat()
    folder.mkdir(mode=0o700)
    shutil.copyfile(path, folder / COPY)
    _sync(folder / COPY)
    note = Note(str(path), digest(folder / COPY), seen.st_size, seen.st_mtime_ns)
    _write(folder, note)
    with path.open("r+b") as file:
        act(file)
        file.flush()
        os.fsync(file.fileno())
    # A checkpoint rots without its time of change moving; and the newest one stays the newest one.
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    note = Note(**{**asdict(note), "damaged": digest(path)})
    _write(folder, note)
    return note


def put_back(folder: Path) -> tuple[bool, str]:
    """Restore what a folder keeps and remove it; may be repeated.

    Returns:
        Whether nothing of the damage is left, and what was done.

    Raises:
        ValueError: the folder is none of ours.
    """
    if not folder.name.startswith(PREFIX):
        raise ValueError(f"{folder} is not a folder of torch-chaos")
    if not folder.is_dir():
        return True, "nothing is kept"
    note = read(folder)
    whole, said = (True, "nothing was damaged") if note is None else _restore(note, folder / COPY)
    if not whole:
        return False, said
    for name in (NOTE, PARTIAL, COPY):
        (folder / name).unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError as error:
        return False, f"{said}; {folder}: {error.strerror}"
    return True, said


def is_whole(note: Note) -> bool:
    """Whether the file is as it was, or is not ours to restore: gone, or written anew by the job."""
    path = Path(note.path)
    if not path.is_file():
        return True
    now = digest(path)
    if now == note.original:
        return path.stat().st_mtime_ns == note.mtime_ns
    return bool(note.damaged) and now != note.damaged


def read(folder: Path) -> Note | None:
    """The note of a folder; None if there is none."""
    try:
        return Note(**json.loads((folder / NOTE).read_text()))
    except FileNotFoundError:
        return None


def _restore(note: Note, copy: Path) -> tuple[bool, str]:
    path = Path(note.path)
    if not path.is_file():
        return True, f"{path} is gone, there is nothing to restore"
    now = digest(path)
    if now != note.original and note.damaged and now != note.damaged:
        return True, f"{path} was written anew since, it is left as it is"
    if digest(copy) != note.original:
        return False, f"not restored: the copy of {path} is damaged"
    if now != note.original:
        # In place: the file keeps its number, its owner and its links.
        with copy.open("rb") as source, path.open("r+b") as target:
            shutil.copyfileobj(source, target, CHUNK_BYTES)
            target.truncate()
            target.flush()
            os.fsync(target.fileno())
    os.utime(path, ns=(path.stat().st_atime_ns, note.mtime_ns))
    return True, f"{path} is as it was"


def _write(folder: Path, note: Note) -> None:
    partial = folder / PARTIAL
    partial.write_text(json.dumps(asdict(note)))
    _sync(partial)
    os.replace(partial, folder / NOTE)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
