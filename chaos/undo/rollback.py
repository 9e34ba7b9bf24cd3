"""`torch-chaos rollback`: say of every run in a folder that it is clean, or make it so."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from chaos.clusters import processes
from chaos.undo import journal as journals
from chaos.undo.finish import finish

REAPER_S = 6.0


@dataclass(frozen=True)
class Rolled:
    """One run and its state: `clean`, `finished now`, `still running` or `not clean`."""

    folder: Path
    state: str
    done: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Nothing of the run is left."""
        return self.state in ("clean", "finished now")


def journals_in(folder: Path) -> list[Path]:
    """The undo journals of a run's folder, or of all runs in a folder of reports, oldest first."""
    own = folder / journals.NAME
    found = [own] if own.is_file() else list(folder.glob(f"*/{journals.NAME}"))
    return sorted(found, key=lambda path: path.stat().st_mtime)


def roll_back(path: Path) -> Rolled:
    """Bring one run to its end, given its journal.

    A run whose tool has just died has a reaper at work: it is given time to finish first.
    """
    limit = time.monotonic() + REAPER_S
    while True:
        journal = journals.read(path)
        opening = journal.opening
        if journal.closed and journal.clean:
            return Rolled(path.parent, "clean")
        if opening is not None and processes.is_alive(opening.pid, opening.start_ticks):
            return Rolled(
                path.parent, "still running", left=(f"torch-chaos is running it (pid {opening.pid})",)
            )
        if journal.closed or time.monotonic() > limit or opening is None or not _reaper_of(path):
            break
        time.sleep(0.05)
    outcome = finish(path, "rollback")
    state = "not clean" if outcome.left else "finished now" if outcome.done else "clean"
    return Rolled(path.parent, state, tuple(outcome.done), tuple(outcome.left))


def _reaper_of(path: Path) -> bool:
    name = str(path.resolve())
    return any(
        name in words and "chaos.undo.reaper" in " ".join(words)
        for words in map(processes.argv, processes.pids())
    )
