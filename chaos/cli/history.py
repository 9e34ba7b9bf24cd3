"""`history`: how the runs below a folder went over time."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from chaos.compare import text
from chaos.compare.read import Stored, reports_at
from chaos.compare.trend import HEADINGS, Row, Trend, trends
from chaos.errors import Exit
from chaos.report.table import aligned, seconds
from chaos.runner.view import Format


def history(folder: Path, suite: str | None, form: Format) -> int:
    """Print a table for each suite; returns 0.

    Raises:
        UserError: there is no report below the folder.
    """
    stored = reports_at(folder)
    kept = [one for one in stored if suite is None or one.report.suite == suite]
    found = trends([(_name(one, folder), one.report) for one in kept])
    if form == "json":
        data = [{**asdict(trend), "newest": _newest(trend)} for trend in found]
        sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    else:
        console = Console(no_color=form != "rich" or None, highlight=False)
        for line in lines_of(found):
            console.print(line, soft_wrap=True, markup=False)
    return int(Exit.PASSED)


def _name(one: Stored, folder: Path) -> str:
    inside = one.path.parent.relative_to(folder) if one.path.is_relative_to(folder) else one.path.parent
    name = str(inside) if str(inside) != "." else one.path.parent.name
    return f"{one.started:%Y-%m-%d %H:%M}  {name}"


def _newest(trend: Trend) -> dict[str, object] | None:
    return text.data_of(trend.newest) if trend.newest is not None else None


def lines_of(found: list[Trend]) -> list[str]:
    """The tables as lines of text."""
    lines: list[str] = []
    for trend in found:
        lines += [f"{trend.suite}: {len(trend.rows)} runs, medians", ""]
        lines += aligned([HEADINGS, *(_cells(row) for row in trend.rows)])
        if trend.newest is not None:
            lines += ["", f"the newest against the {len(trend.rows) - 1} before it:"]
            lines += text.lines_of(trend.newest)
        lines.append("")
    return lines[:-1]


def _cells(row: Row) -> tuple[str, ...]:
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in row.verdicts.items()) or "-"
    if row.unexpected:
        verdicts += f" ({row.unexpected} unexpected)"
    times = [row.median_s.get(timed) for timed in HEADINGS[5:]]
    return (
        row.run,
        row.commit or "-",
        row.plan,
        verdicts,
        str(row.recoveries),
        *("-" if one is None else seconds(one) for one in times),
    )
