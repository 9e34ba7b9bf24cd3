"""The final table: for a terminal (rich) and as plain text. Both show the same cells."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from chaos.report.model import Report, ScenarioReport

HEADINGS = ("scenario", "verdict", "faults", "recovery median / worst", "evidence")
STYLES = {
    "PASS": "bold green",
    "VIOLATED": "bold red",
    "INCONCLUSIVE": "bold yellow",
    "ERROR": "bold magenta",
}


def rich_table(report: dict[str, object]) -> RenderableType:
    """The report as a rich renderable: the table and the closing lines."""
    data = Report.model_validate(report)
    title = Text(f"{data.suite} · seed {data.seed}")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    table.add_column(HEADINGS[0], no_wrap=True)
    table.add_column(HEADINGS[1], no_wrap=True)
    table.add_column(HEADINGS[2], justify="right")
    table.add_column(HEADINGS[3], justify="right", no_wrap=True)
    table.add_column(HEADINGS[4], overflow="fold")
    for scenario in data.scenarios:
        name, verdict, *rest = cells(scenario)
        surprising = not scenario.as_expected or scenario.verdict == "PASS"
        style = STYLES[scenario.verdict] if surprising else "green"
        # Text, not str: a scenario's evidence may hold brackets, which rich would read as markup.
        table.add_row(Text(name), Text(verdict, style), *(Text(cell) for cell in rest))
    return Group(table, *(Text(line) for line in closing_lines(data)))


def plain_table(report: dict[str, object]) -> str:
    """The report as plain text: no colour, no box characters, aligned columns."""
    data = Report.model_validate(report)
    rows = [HEADINGS, *(cells(scenario) for scenario in data.scenarios)]
    return "\n".join([*aligned(rows), "", *closing_lines(data)]) + "\n"


def aligned(rows: Sequence[Sequence[str]], words: int | None = None) -> list[str]:
    """Rows as lines of text, columns aligned: to the left, and after `words` columns to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if words is None or number < words else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def cells(scenario: ScenarioReport) -> tuple[str, str, str, str, str]:
    """One row: name, verdict, fired/planned faults, recovery times, first evidence line."""
    verdict: str = scenario.verdict
    if scenario.as_expected and verdict != "PASS":
        verdict = f"{verdict} (as expected)"
    elif not scenario.as_expected and scenario.expected != "PASS":
        verdict = f"{verdict} (expected {scenario.expected})"
    fired = sum(fault.fired for fault in scenario.faults)
    faults = f"{fired}/{len(scenario.faults)}" if scenario.faults else "-"
    times = [r.measured_s for r in scenario.recoveries if r.measured_s is not None]
    recovery = f"{seconds(median(times))} / {seconds(max(times))}" if times else "-"
    return scenario.name, verdict, faults, recovery, scenario.reason


def closing_lines(data: Report) -> list[str]:
    """What follows the table: counts, times per fault, plan, replay command, exit code."""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in data.summary.scenarios.items())
    lines = [f"{len(data.scenarios)} scenarios: {counts or 'none'} in {data.wall_s:.1f} s"]
    if data.summary.step_s is not None:
        lines.append(f"step: median {seconds(data.summary.step_s)}")
    lines += [
        f"{name}: {times.count} recoveries, median {seconds(times.median_s)}, worst {seconds(times.worst_s)}"
        for name, times in data.summary.recovery.items()
    ]
    if data.summary.unexpected:
        lines.append(f"not as expected: {', '.join(data.summary.unexpected)}")
    lines += [f"seed {data.seed}, plan {data.plan_hash[:12]}", f"replay: {data.replay}"]
    return [*lines, f"exit {data.exit_code}"]


def seconds(value_s: float) -> str:
    """A duration for people: milliseconds below one second."""
    return f"{value_s * 1000:.0f} ms" if value_s < 1 else f"{value_s:.2f} s"
