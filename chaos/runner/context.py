"""What all scenarios of one run share: its folder, its temporary folder, its journal, its reaper, its
template."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from chaos.clusters import processes
from chaos.errors import Refused
from chaos.targets.recovery import Template
from chaos.undo import journal as journals
from chaos.undo import shm
from chaos.undo.journal import JournalFile
from chaos.undo.reaper import Reaper
from chaos.undo.records import Opening
from injectors import undo

LOCK = ".lock"
# TMPDIR of what is started once a run: Python remembers the folder that it found first, so everything that is
# forked from the template puts its temporary files here, whatever TMPDIR says by then.
SHARED = "shared"
KILL_S = 4.0
# Unix socket paths end at 107 bytes; a long TMPDIR must not break the agents' line.
LONGEST_TEMP = 60


@dataclass
class Context:
    """An open run. `close` leaves nothing behind but the reports.

    Attributes:
        run: the marker's value, unique to this run.
        folder: where reports and histories go.
        temp: private folder (mode 0700) for sockets, the targets' TMPDIR and work folders.
        env: the environment that targets start from.
    """

    run: str
    folder: Path
    temp: Path
    env: Mapping[str, str]
    journal: JournalFile
    reaper: Reaper
    template: Template
    lock: FileLock

    @classmethod
    def open(cls, folder: Path, preload: tuple[str, ...] = (), starts_jobs: bool = True) -> Context:
        """Take the folder and start what must be there before anything is broken.

        Args:
            folder: where reports go.
            preload: what the template has imported.
            starts_jobs: False where the job is somebody else's, and what it leaves in shared memory too.

        Raises:
            Refused: the folder cannot be written to, or another run has it.
        """
        lock = take_folder(folder)
        run = f"{time.strftime('%H%M%S')}-{secrets.token_hex(4)}"
        base = tempfile.gettempdir()
        base = base if len(base) <= LONGEST_TEMP else "/tmp"
        temp = Path(base) / f"torch-chaos-{run}"
        me = processes.read(os.getpid())
        assert me is not None
        before = tuple(sorted(shm.entries())) if starts_jobs else None
        journal = JournalFile(folder / journals.NAME)
        reaper = None
        try:
            journal.open(Opening(run, me.pid, me.start_ticks, str(temp), before, time.time()))
            reaper = Reaper.start(journal.path)
            # Only now, when someone is there to remove it whatever happens to us.
            temp.mkdir(mode=0o700)
            (temp / SHARED).mkdir()
        except OSError as error:
            if reaper is not None:
                reaper.stop()
            lock.release()
            (folder / LOCK).unlink(missing_ok=True)
            raise Refused(
                f"{error.filename or folder}: cannot be written to: {error.strerror}",
                "free space there, or choose another folder with --report-dir",
            ) from None
        env = {**os.environ, processes.MARKER: run, "TMPDIR": str(temp / SHARED), "PYTHONUNBUFFERED": "1"}
        return cls(run, folder, temp, env, journal, reaper, Template(env, preload), lock)

    def sub(self, kind: str, name: str) -> Path:
        """A folder in the temporary folder, made if it is not there."""
        path = self.temp / kind / name
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    def close(self) -> list[str]:
        """End everything of the run; returns what could not be removed. May be called at any moment, once."""
        self.template.stop()
        spare = (self.reaper.pid, os.getpid())
        stubborn = processes.kill_marked(self.run, KILL_S, spare)
        left = [f"process {p.pid}: {' '.join(processes.argv(p.pid))}" for p in stubborn]
        left += self._undo_rest()
        shutil.rmtree(self.temp, ignore_errors=True)
        if self.temp.exists():
            left.append(f"folder {self.temp}")
        self.journal.close("engine", not left, left)
        self.reaper.stop()
        self.lock.release()
        (self.folder / LOCK).unlink(missing_ok=True)
        return left

    def _undo_rest(self) -> list[str]:
        """Take back what a scenario could not; with its process gone, most of it is gone too."""
        left = []
        for key, record in journals.read(self.journal.path).pending:
            try:
                result = undo.carry_out(record)
            except (ValueError, KeyError, OSError) as error:
                left.append(f"{key}: {error}")
                continue
            if result["done"]:
                self.journal.undone(key, "engine")
            else:
                left.append(f"{key}: {result['detail']}")
        return left


def take_folder(folder: Path) -> FileLock:
    """Make the report folder and lock it. An earlier run's files in it are moved aside, not overwritten.

    Raises:
        Refused: it cannot be written to, or another run has it.
    """
    mend = "choose another folder with --report-dir"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK)
        lock.acquire(timeout=0)
    except Timeout:
        raise Refused(f"{folder}: another run is writing its report here", mend) from None
    except OSError as error:
        raise Refused(f"{folder}: reports cannot be written here: {error.strerror}", mend) from None
    try:
        _move_aside(folder)
    except OSError as error:
        lock.release()
        raise Refused(f"{folder}: reports cannot be written here: {error.strerror}", mend) from None
    return lock


def _move_aside(folder: Path) -> None:
    if not any((folder / name).exists() for name in ("plan.json", journals.NAME)):
        return
    number = 1
    while (aside := folder / f"earlier-{number}").exists():
        number += 1
    aside.mkdir()
    for path in folder.iterdir():
        if path.name != LOCK and not path.name.startswith("earlier-"):
            path.rename(aside / path.name)
