"""`report --as-is`: what is drawn from a run's folder, drawn anew from its report.json as it stands."""

from __future__ import annotations

from pathlib import Path

from chaos.report.pages import HTML, TRACE, write_pages
from injectors.catalogue import CATALOGUE


def pages(folder: Path) -> int:
    """Write report.html and trace.json anew; nothing is judged. Returns the exit code.

    Raises:
        UserError: it is not a run's folder, or cannot be written to.
    """
    write_pages(folder, CATALOGUE)
    print(f"{folder / HTML}\n{folder / TRACE}")
    return 0
