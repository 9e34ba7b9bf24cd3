"""A report for GitHub Actions: annotations at the scenario's line, and the job's summary. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from chaos.compare.samples import base_names
from chaos.report.junit import Inconclusive
from chaos.report.model import Report, ScenarioReport
from chaos.report.table import cells, closing_lines

LONGEST_CELL = 300
HEADINGS = ("scenario", "verdict", "faults", "recovery median / worst", "evidence")
LEVELS = {"error": "error", "fail": "error", "skip": "warning"}


@dataclass(frozen=True)
class Place:
    """Where a scenario stands: a file, as the repository's own path, and a line from 1."""

    file: str
    line: int


def commands(report: Report, places: Mapping[str, Place], inconclusive: Inconclusive = "error") -> list[str]:
    """Workflow commands, one for each scenario that did not end as it states.

    Args:
        places: by the scenario's name in the suite file; one that is not there is told without a place.
        inconclusive: as in JUnit: what is skipped there is a warning here.
    """
    names = base_names([scenario.name for scenario in report.scenarios])
    return [
        _command(scenario, places.get(names[scenario.name]), inconclusive)
        for scenario in report.scenarios
        if not scenario.as_expected
    ]


def _command(scenario: ScenarioReport, place: Place | None, inconclusive: Inconclusive) -> str:
    level = LEVELS[inconclusive] if scenario.verdict == "INCONCLUSIVE" else "error"
    keys = {"file": place.file, "line": str(place.line)} if place is not None else {}
    keys["title"] = f"{scenario.verdict}: {scenario.name}"
    properties = ",".join(f"{key}={_property(value)}" for key, value in keys.items())
    expected = "" if scenario.expected == "PASS" else f" (expected {scenario.expected})"
    text = f"{scenario.reason}{expected}\nreplay: {scenario.replay}"
    return f"::{level} {properties}::{_data(text)}"


def _data(text: str) -> str:
    """A workflow command's text: a line break would end the command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def summary(report: Report, comparison: Sequence[str] = ()) -> str:
    """The job's summary in Markdown.

    Args:
        comparison: lines of the comparison with a baseline, if there was one.
    """
    return "\n".join(_summary_lines(report, comparison)) + "\n"


def _summary_lines(report: Report, comparison: Sequence[str]) -> Iterator[str]:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in report.summary.scenarios.items())
    yield f"## torch-chaos {_cell(report.suite)}: {counts or 'nothing was run'}"
    yield ""
    yield _row(HEADINGS)
    yield _row(["---"] * len(HEADINGS))
    for scenario in report.scenarios:
        shown = [_cell(text) for text in cells(scenario)]
        yield _row(shown if scenario.as_expected else [f"**{shown[0]}**", f"**{shown[1]}**", *shown[2:]])
    yield ""
    for scenario in report.scenarios:
        if not scenario.as_expected:
            yield from (f"Replay {_cell(scenario.name)}:", "", *_fenced([scenario.replay]), "")
    if comparison:
        yield from ("### Against the baseline", "", *_fenced(comparison), "")
    yield from ("<details><summary>Run</summary>", "", *_fenced(closing_lines(report)), "", "</details>")


def _row(shown: Sequence[str]) -> str:
    return f"| {' | '.join(shown)} |"


def _cell(text: str) -> str:
    """Text that a table cell shows as it is: evidence may hold any character."""
    short = text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"
    for special in "\\`*_{}[]|~#":
        short = short.replace(special, f"\\{special}")
    return " ".join(short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").split())


def _fenced(lines: Sequence[str]) -> list[str]:
    """A block of code whose fence is longer than any run of backticks within."""
    longest = max((len(run) for line in lines for run in _ticks(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *lines, fence]


def _ticks(line: str) -> list[str]:
    return "".join(char if char == "`" else " " for char in line).split()
