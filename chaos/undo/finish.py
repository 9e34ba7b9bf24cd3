"""Finish a run whose tool is gone: undo what is open, end its processes, remove what it kept, close its
journal.

Standard library and `injectors.undo` only. The reaper calls it moments after the tool's death, `torch-chaos
rollback` at any time later; doing it twice does no harm.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from chaos.clusters import processes
from chaos.undo import journal as journals
from chaos.undo import shm
from chaos.undo.records import Journal, Opening
from injectors import undo

KILL_S = 4.0


@dataclass
class Outcome:
    """What was done, and what is still there; `left` empty means clean."""

    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def finish(path: Path, by: str) -> Outcome:
    """Finish the run of the journal at `path`. The caller has made sure that its tool is dead.

    Raises:
        OSError: the journal cannot be read.
    """
    journal = journals.read(path)
    outcome = Outcome()
    # Processes first: what a fault did to a process ends with it, and the undo records that are left then say
    # so at once instead of waiting for a frozen process to answer.
    if journal.opening is not None:
        _end_processes(journal.opening, outcome)
    _undo(journal, path, by, outcome)
    if journal.opening is not None:
        _remove_files(journal.opening, outcome)
    if not journal.closed or not journal.clean:
        journals.append(path, {"op": "closed", "by": by, "clean": not outcome.left, "left": outcome.left})
    return outcome


def _end_processes(opening: Opening, outcome: Outcome) -> None:
    me = (os.getpid(),)
    found = len(processes.marked(opening.run, spare=me))
    stubborn = processes.kill_marked(opening.run, KILL_S, spare=me)
    if found:
        outcome.done.append(f"ended {found} processes of the run")
    outcome.left += [f"process {p.pid}: {' '.join(processes.argv(p.pid))}" for p in stubborn]


def _undo(journal: Journal, path: Path, by: str, outcome: Outcome) -> None:
    for key, record in journal.pending:
        try:
            result = undo.carry_out(record)
        except Exception as error:
            # Whatever went wrong with this one is said; it must not keep the others from being taken back.
            outcome.left.append(f"{key}: {error!r}" if not str(error) else f"{key}: {error}")
            continue
        if result["done"]:
            journals.append(path, {"op": "undone", "key": key, "by": by})
            outcome.done.append(f"{key}: {result['detail']}")
        else:
            outcome.left.append(f"{key}: {result['detail']}")


def _remove_files(opening: Opening, outcome: Outcome) -> None:
    before = opening.shm_before
    new = [] if before is None else shm.left(before, opening.started_at, opening.run)
    ours = [name for name in new if name.startswith(shm.OURS)]
    outcome.left += [f"shared memory {shm.FOLDER}/{name}" for name in shm.remove(ours)]
    if opening.temp and os.path.isdir(opening.temp):
        shutil.rmtree(opening.temp, ignore_errors=True)
        outcome.done.append(f"removed {opening.temp}")
        if os.path.exists(opening.temp):
            outcome.left.append(f"folder {opening.temp}")
