"""Faults, recoveries and history lines of one scenario, as the page shows them. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from chaos.faults import STAGES
from chaos.history import History
from chaos.records import Event, map_of, text_of, time_of
from chaos.recoveries import PHASES
from chaos.report.html.model import FaultView, LineView, RecoveryView, StageView
from chaos.report.html.timeline import phase_bar
from chaos.report.lanes import recovery_starts
from chaos.report.model import FaultReport, RecoveryReport
from chaos.report.stored import Line
from chaos.report.table import seconds

# The rest of a long line or of long evidence is in the files beside the page.
MOST_TEXT = 200
MOST_DATA = 1200
MOST_LINES = 300
CUT = " …"
# Thousands, and each like the one before.
DULL = frozenset({"step.begin", "step.commit", "process.seen", "agent.installed", "generation.formed"})
ENDS = {"fired": "fired", "verified": "verified", "undone": "undone", "undo_verified": "undo verified"}


@dataclass(frozen=True)
class Shown:
    """The lines of a scenario that are on the page, and where."""

    scenario: str
    lines: tuple[Line, ...]
    left_out: int
    origin_t: float
    numbers: frozenset[int]

    @classmethod
    def of(cls, scenario: str, lines: Sequence[Line]) -> Shown:
        """Choose the lines: those that tell something, faults first if there are too many."""
        telling = [line for line in lines if text_of(line.event, "event") not in DULL]
        if len(telling) > MOST_LINES:
            # Stable: faults keep their order, and what else there is room for keeps its own.
            telling = sorted(telling, key=lambda line: not _of_fault(line.event))[:MOST_LINES]
            telling.sort(key=lambda line: line.number)
        origin = time_of(lines[0].event) if lines else 0.0
        numbers = frozenset(line.number for line in telling)
        return cls(scenario, tuple(telling), len(lines) - len(telling), origin, numbers)

    def anchor(self, number: int) -> str | None:
        """The anchor of a line, None if it is not shown."""
        return f"{self.scenario}-line-{number}" if number in self.numbers else None

    def at(self, event: Event) -> str:
        """When, since the scenario began."""
        return f"{time_of(event) - self.origin_t:.3f} s"

    def views(self) -> tuple[LineView, ...]:
        """The lines as text."""
        return tuple(
            LineView(
                f"{self.scenario}-line-{line.number}",
                line.number,
                self.at(line.event),
                text_of(line.event, "event") or "",
                cut(_rest(line.event), MOST_TEXT),
            )
            for line in self.lines
        )


def _of_fault(event: Event) -> bool:
    return (text_of(event, "event") or "").startswith("fault.")


def _rest(event: Event) -> str:
    return plain({key: value for key, value in event.items() if key not in ("t", "event")})


def plain(value: object) -> str:
    """One line of JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def cut(text: str, length: int) -> str:
    """At most so many characters, marked if something is missing."""
    return text if len(text) <= length else text[: length - len(CUT)] + CUT


def address(value: Mapping[str, object]) -> str:
    """`rank 2`, `step 12 phase backward`: a fault's where or when."""
    told = [
        f"{key} {item if isinstance(item, (str, int, float)) else plain(item)}" for key, item in value.items()
    ]
    return ", ".join(told) or "anywhere"


def duration(value_s: float | None) -> str:
    """A duration, or that it is not known."""
    return "–" if value_s is None else seconds(value_s)


def fault_view(
    fault: FaultReport, anchor: str, shown: Shown | None, planned: Mapping[str, object]
) -> FaultView:
    """One fault with its stages: from the history's lines, or without one from the report alone.

    Args:
        fault: as reported.
        anchor: unique on the page.
        shown: the lines on the page, if there is a history.
        planned: the same fault in the plan, empty if that was not kept.
    """
    found = _stage_lines(shown, fault.id)
    stages = []
    for stage in (*STAGES, "failed"):
        line = found.get(stage)
        evidence = map_of(line.event, "evidence") if line else map_of(fault.evidence, stage)
        failed = fault.evidence.get("failed") if stage == "failed" else None
        if line is None and not evidence and failed is None:
            continue
        said = text_of(evidence, "what") or (str(failed) if failed is not None else _failure(line))
        stages.append(
            StageView(
                stage.replace("_", " "),
                shown.at(line.event) if shown and line else "",
                cut(said, MOST_TEXT),
                _proven(evidence),
                text_of(evidence, "source") or "",
                cut(plain(evidence["data"]), MOST_DATA) if evidence.get("data") else "",
                shown.anchor(line.number) if shown and line else None,
            )
        )
    return FaultView(
        anchor,
        fault.id,
        fault.name,
        address(fault.where),
        address(fault.when),
        _struck(fault),
        tuple((word, bool(getattr(fault, stage))) for stage, word in _ends(planned).items()),
        duration(fault.recover_s),
        tuple(stages),
    )


def _ends(planned: Mapping[str, object]) -> dict[str, str]:
    """The stages that a fault has to reach: one that leaves nothing behind has no undo."""
    undo = planned.get("has_undo") is not False
    return {stage: word for stage, word in ENDS.items() if undo or not stage.startswith("undo")}


def _stage_lines(shown: Shown | None, fault: str) -> dict[str, Line]:
    """The first line of each stage of a fault."""
    found: dict[str, Line] = {}
    for line in shown.lines if shown else ():
        name = text_of(line.event, "event") or ""
        if name.startswith("fault.") and text_of(line.event, "fault") == fault:
            found.setdefault(name.removeprefix("fault."), line)
    return found


def _failure(line: Line | None) -> str:
    if line is None:
        return ""
    return text_of(line.event, "detail") or text_of(line.event, "reason") or ""


def _proven(evidence: Mapping[str, object]) -> str:
    if "proven" not in evidence:
        return ""
    return "proven" if evidence["proven"] is True else "not proven"


def _struck(fault: FaultReport) -> str:
    told = [
        f"{key} {value}" for key, value in (("rank", fault.rank), ("step", fault.step)) if value is not None
    ]
    return ", ".join(told) or "–"


def recovery_views(
    found: Sequence[RecoveryReport],
    scenario: str,
    faults: Mapping[str, str],
    shown: Shown | None,
    history: History | None,
    unanswered: Collection[str],
) -> tuple[RecoveryView, ...]:
    """The recoveries of a scenario.

    Args:
        found: as reported.
        scenario: the scenario's anchor.
        faults: a fault's anchor by its id.
        shown: the lines on the page, if there is a history.
        history: the history, if there is one.
        unanswered: ids of faults that no recovery answers.
    """
    longest = max((sum(_phases(recovery).values()) for recovery in found), default=0.0)
    starts = recovery_starts(history, unanswered) if history is not None else []
    # A history that was judged by another version may count them otherwise: then none is placed.
    placed = starts if len(starts) == len(found) else []
    views = []
    for number, recovery in enumerate(found):
        phases = _phases(recovery)
        start = placed[number] if placed else None
        views.append(
            RecoveryView(
                f"{scenario}-recovery-{number + 1}",
                f"{number + 1}: {recovery.cause}"
                + (f", rank {recovery.rank}" if recovery.rank is not None else ""),
                tuple((fault, faults[fault]) for fault in recovery.faults if fault in faults),
                tuple((name, duration(getattr(recovery, f"{name}_s"))) for name in PHASES),
                duration(recovery.total_s),
                duration(recovery.measured_s),
                "–" if recovery.bytes is None else f"{recovery.bytes:,}",
                Markup(phase_bar(phases, longest).__html__()),
                _window(start, history),
                _line(recovery, shown),
            )
        )
    return tuple(views)


def _phases(recovery: RecoveryReport) -> dict[str, float]:
    phases = {name: getattr(recovery, f"{name}_s") or 0.0 for name in PHASES}
    if recovery.derived:
        phases["restart"] = max(0.0, (recovery.total_s or 0.0) - phases["detect"])
    return phases


def _window(
    start: tuple[float, Mapping[str, float]] | None, history: History | None
) -> tuple[float, float] | None:
    """Where a recovery lies in the timeline, percent from and to."""
    if start is None or history is None or not history.events:
        return None
    origin, end = time_of(history.events[0]), time_of(history.events[-1])
    if end <= origin:
        return None
    begin, whole = start[0] - origin, end - origin
    return round(begin / whole * 100, 3), round((begin + sum(start[1].values())) / whole * 100, 3)


def _line(recovery: RecoveryReport, shown: Shown | None) -> str | None:
    for line in shown.lines if shown else ():
        event = line.event
        if event.get("event") == "recovery.done" and event.get("generation") == recovery.generation:
            return shown.anchor(line.number) if shown else None
    return None
