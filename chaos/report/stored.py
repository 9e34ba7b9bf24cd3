"""A run's folder, read for what is drawn from it: the report, the plan, the histories.

Rules kept here:

- What is not there is not drawn: a committed record keeps its verdicts and leaves its histories out.
- Nothing is judged: the verdicts are those of report.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from chaos.errors import UserError
from chaos.history import History
from chaos.records import Event, list_of, text_of, time_of
from chaos.report.model import Report, ScenarioReport

PLAN = "plan.json"
REPORT = "report.json"
HISTORY = "history.jsonl"
TWINS = "twins"
"""The folder with the histories of the runs without faults, by their names."""


@dataclass(frozen=True)
class Line:
    """One event with its place in the file. `number` counts from 1."""

    number: int
    event: Event


@dataclass(frozen=True)
class Scenario:
    """What is stored of one scenario.

    Attributes:
        lines: the events of its history in the order of time; None if no history was kept.
        twin: the history of its fault-free twin; None if it was not kept.
        planned: the plan's scenario (plain data); empty if the plan was not kept.
    """

    lines: tuple[Line, ...] | None = None
    twin: History | None = None
    planned: Mapping[str, object] = field(default_factory=dict)

    @property
    def history(self) -> History:
        """The events alone."""
        return History(line.event for line in self.lines or ())


@dataclass(frozen=True)
class Stored:
    """What a run's folder holds. `scenarios` are by name."""

    report: Report
    scenarios: Mapping[str, Scenario]


def read_report(path: Path) -> Report:
    """One report.json.

    Raises:
        UserError: it cannot be read, or is not a report of this version.
    """
    try:
        return Report.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read: {error.strerror}", f"name a run's folder, or its {REPORT}"
        ) from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise UserError(
            f"{path}: not a report of this version: {where}: {first['msg']}",
            f"if a run wrote it, judge that again: torch-chaos report {path.parent}",
        ) from None


def read(folder: Path) -> Stored:
    """Read a run's folder.

    Raises:
        UserError: its report.json is missing or is none.
    """
    report = read_report(folder / REPORT)
    planned = _planned(folder / PLAN)
    twins: dict[str, History | None] = {}
    found: dict[str, Scenario] = {}
    for scenario in report.scenarios:
        plan = planned.get(scenario.name, {})
        twin = text_of(plan, "twin")
        if twin is not None and twin not in twins:
            path = folder / TWINS / twin / HISTORY
            twins[twin] = History.load(path) if path.is_file() else None
        found[scenario.name] = Scenario(
            _lines(folder / scenario.name / HISTORY), twins[twin] if twin is not None else None, plan
        )
    return Stored(report, found)


def unanswered(scenario: ScenarioReport) -> frozenset[str]:
    """Ids of the faults that no recovery answers, as the report has it."""
    answered = {fault for recovery in scenario.recoveries for fault in recovery.faults}
    return frozenset(fault.id for fault in scenario.faults) - answered


def lines_of(text: str) -> tuple[Line, ...]:
    """The events of a history file, oldest first, each with its line; what is no event is left out."""
    found: list[Line] = []
    # Not splitlines: a line is what `sed -n 120p` shows.
    for number, line in enumerate(text.split("\n"), start=1):
        found += [Line(number, event) for event in History.parse([line]).events]
    return tuple(sorted(found, key=lambda line: time_of(line.event)))


def _lines(path: Path) -> tuple[Line, ...] | None:
    if not path.is_file():
        return None
    return lines_of(path.read_text(encoding="utf-8", errors="replace"))


def _planned(path: Path) -> dict[str, Mapping[str, object]]:
    if not path.is_file():
        return {}
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path}: not JSON: {error}", "name the folder of one run") from None
    scenarios = list_of(plan, "scenarios") if isinstance(plan, dict) else []
    return {str(item.get("name")): item for item in scenarios if isinstance(item, dict)}
