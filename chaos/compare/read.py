"""Reports from disk: one file, one run's folder, or a folder of runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from chaos.errors import UserError
from chaos.report.model import Report
from chaos.report.stored import REPORT, read_report

_STAMP = re.compile(r"-(\d{8}-\d{6})(?:-\d+)?$")


@dataclass(frozen=True)
class Stored:
    """A report and where it lies.

    Attributes:
        started: when the run began; where it is not told, the folder's name or the file's time must do.
    """

    path: Path
    report: Report
    started: datetime


def reports_at(path: Path) -> list[Stored]:
    """The report of a file or of a run's folder, or all reports below a folder, oldest first.

    Raises:
        UserError: there is none, or one of them cannot be read.
    """
    if path.is_dir():
        own = path / REPORT
        found = [own] if own.is_file() else sorted(path.rglob(REPORT))
        if not found:
            raise UserError(f"{path}: no {REPORT} in it or below", "name the folder of a run, or one of runs")
    else:
        found = [path]
    stored = [_stored(one) for one in found]
    return sorted(stored, key=lambda one: (one.started, str(one.path)))


def _stored(path: Path) -> Stored:
    report = read_report(path)
    return Stored(path, report, started(path, report))


def started(path: Path, report: Report) -> datetime:
    """When a run began: as its report says; of an old one, as its folder's name or the file's time say."""
    told = report.environment.get("started")
    if isinstance(told, str):
        try:
            return datetime.fromisoformat(told).astimezone(UTC)
        except ValueError:
            pass
    if match := _STAMP.search(path.parent.name):
        # The folder's name is in the local time of the machine that made it; it is taken for this one's.
        return datetime.strptime(match[1], "%Y%m%d-%H%M%S").astimezone(UTC)
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)
