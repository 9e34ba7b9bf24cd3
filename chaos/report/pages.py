"""What is drawn from a run's folder and written beside report.json: ``report.html`` and ``trace.json``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from chaos.errors import UserError
from chaos.report.html import page, render
from chaos.report.stored import read
from chaos.report.trace import trace

HTML = "report.html"
TRACE = "trace.json"


def write_pages(folder: Path, catalogue: Iterable[str] = ()) -> None:
    """Write both files anew.

    Args:
        folder: a run's folder, with its report.json.
        catalogue: names of all faults that there are.

    Raises:
        UserError: the folder holds no report, or cannot be written to.
    """
    stored = read(folder)
    # Without NaN, which JSON has not and viewers refuse.
    text = json.dumps(trace(stored), separators=(",", ":"), allow_nan=False)
    try:
        _write(folder / TRACE, text + "\n")
        _write(folder / HTML, render(page(stored, catalogue)))
    except OSError as error:
        raise UserError(
            f"{folder}: cannot be written to: {error.strerror}", "choose another folder"
        ) from None


def _write(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
