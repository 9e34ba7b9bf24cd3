"""`rollback`."""

from __future__ import annotations

from pathlib import Path

from chaos.errors import Exit, UserError
from chaos.undo.rollback import journals_in, roll_back


def rollback(folder: Path) -> int:
    """Bring every run in a folder to its end; returns 0 if all is clean, 3 if something could not be removed.

    Raises:
        UserError: there is no such folder.
    """
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}", "name a run's folder, or one that holds runs")
    journals = journals_in(folder)
    if not journals:
        print(f"{folder}: clean (no run has been here)")
        return int(Exit.PASSED)
    rolled = [roll_back(path) for path in journals]
    for one in rolled:
        print(f"{one.folder}: {one.state}")
        for line in (*one.done, *(f"LEFT: {left}" for left in one.left)):
            print(f"    {line}")
    bad = [one for one in rolled if not one.clean and one.state != "still running"]
    return int(Exit.LEFTOVERS if bad else Exit.PASSED)
