"""What a scenario left behind, and what it left running: looked for by marker, by name and by folder."""

from __future__ import annotations

import fnmatch
import os
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.clusters import processes
from chaos.undo import shm

# Processes that die with their parent need a moment: the kernel tears them down after the parent's end is
# seen.
GRACE_S = 1.0
# What well-known programs leave in TMPDIR and nobody minds: torchrun's log folder, inductor's caches.
KNOWN_FILES = ("torchelastic_*", "torchinductor_*", "__pycache__")


@dataclass(frozen=True)
class Before:
    """How things were when the scenario began."""

    marked: frozenset[tuple[int, int]]
    shm: frozenset[str]
    started_at: float
    unix: frozenset[str] = field(default_factory=frozenset)
    files: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Left:
    """What is left of a scenario; all empty means nothing."""

    processes: list[dict[str, Any]]
    shm: list[str]
    sockets: list[str]
    files: list[str]

    @property
    def nothing(self) -> bool:
        """Whether nothing is left."""
        return not (self.processes or self.shm or self.sockets or self.files)


def before(run: str, temp: Path, folders: Collection[Path]) -> Before:
    """How things are now; the arguments are those of `look`."""
    marked = frozenset((p.pid, p.start_ticks) for p in processes.marked(run))
    files = frozenset(str(path) for path in _files(folders, KNOWN_FILES))
    return Before(marked, frozenset(shm.entries()), time.time(), frozenset(_unix_sockets(temp)), files)


def look(
    run: str,
    temp: Path,
    folders: Collection[Path],
    then: Before,
    ignore: Collection[str],
    known: set[tuple[int, int]],
) -> Left:
    """What there is now that was not there then. Waits up to a second for what is just ending.

    Args:
        run: the run's marker.
        temp: the run's temporary folder, whose sockets are the run's.
        folders: where the target's temporary files go.
        then: how things were.
        ignore: patterns of files that the target may leave.
        known: processes (pid, start time) that the job's own events named: found even without the marker.
    """
    running = _settled(lambda: _processes(run, then, known))
    pids = {pid for pid, _ in known}
    memory = _settled(lambda: shm.left(then.shm, then.started_at, run, pids))
    sockets = _settled(lambda: sorted(_unix_sockets(temp) - then.unix))
    files = [str(path) for path in _files(folders, (*KNOWN_FILES, *ignore)) if str(path) not in then.files]
    return Left([_described(p) for p in running], memory, sockets, files)


def _settled(found: Callable[[], list[Any]]) -> list[Any]:
    limit = time.monotonic() + GRACE_S
    pause = 0.002
    while (now := found()) and time.monotonic() < limit:
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    return now


def _processes(run: str, then: Before, known: Iterable[tuple[int, int]]) -> list[processes.Process]:
    found = {(p.pid, p.start_ticks): p for p in processes.marked(run)}
    for pid, ticks in known:
        process = processes.read(pid)
        if process is not None and process.start_ticks == ticks and not process.ended:
            found[pid, ticks] = process
    return [process for key, process in found.items() if key not in then.marked]


def _described(process: processes.Process) -> dict[str, Any]:
    line = " ".join(processes.argv(process.pid))
    return {"pid": process.pid, "start_ticks": process.start_ticks, "argv": line[:200]}


def _unix_sockets(temp: Path) -> set[str]:
    """Paths of unix sockets below a folder, as the kernel lists them."""
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
            words = (line.split() for line in file)
            return {w[7] for w in words if len(w) > 7 and w[7].startswith(f"{temp}{os.sep}")}
    except OSError:
        return set()


def _files(folders: Collection[Path], ignore: Collection[str]) -> list[Path]:
    """What is in the folders, without what may be there."""
    found = [path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())]
    return [path for path in found if not any(fnmatch.fnmatchcase(path.name, pattern) for pattern in ignore)]
