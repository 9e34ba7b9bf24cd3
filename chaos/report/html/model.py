"""What the page shows, as plain data and finished drawings. The template only lays it out."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from chaos.report.coverage import Coverage


@dataclass(frozen=True)
class Verdict:
    """A verdict with its sign: told by shape and word, never by colour alone.

    Attributes:
        word: PASS, VIOLATED, INCONCLUSIVE, ERROR or NOT_APPLICABLE.
        sign: one character.
        fine: whether it is as the scenario states.
        note: what to say besides, "" if nothing.
    """

    word: str
    sign: str
    fine: bool = True
    note: str = ""


@dataclass(frozen=True)
class LineView:
    """One line of a history that is worth a look; `text` is cut when long."""

    id: str
    number: int
    at: str
    event: str
    text: str


@dataclass(frozen=True)
class StageView:
    """One stage of a fault's evidence. `line` is the anchor of its line, None if that is not shown."""

    name: str
    at: str
    said: str
    proven: str
    source: str
    data: str
    line: str | None


@dataclass(frozen=True)
class FaultView:
    """One planned fault and its evidence."""

    id: str
    key: str
    name: str
    where: str
    when: str
    struck: str
    marks: tuple[tuple[str, bool], ...]
    recover: str
    stages: tuple[StageView, ...]


@dataclass(frozen=True)
class RecoveryView:
    """One recovery: phases drawn and as text. `window` is where it lies in the timeline, percent."""

    id: str
    title: str
    faults: tuple[tuple[str, str], ...]
    phases: tuple[tuple[str, str], ...]
    total: str
    measured: str
    bytes: str
    bar: Markup
    window: tuple[float, float] | None
    line: str | None


@dataclass(frozen=True)
class TimelineView:
    """A drawing with the names of its lanes, each with its height in pixels.

    Attributes:
        kinds: what the legend has to explain.
        crowded: the small marks would hide everything else; they are shown when zoomed in.
    """

    drawing: Markup
    names: tuple[tuple[str, int], ...]
    summary: str
    kinds: frozenset[str]
    crowded: bool


@dataclass(frozen=True)
class CurveView:
    """The loss beside the twin's."""

    drawing: Markup
    summary: str
    low: str
    high: str
    last_step: int
    twin: bool


@dataclass(frozen=True)
class InvariantView:
    """One invariant's finding."""

    verdict: Verdict
    name: str
    detail: str
    offences: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ScenarioView:
    """One scenario, in full."""

    id: str
    name: str
    description: str
    verdict: Verdict
    reason: str
    expected: str
    figures: tuple[tuple[str, str], ...]
    replay: str
    timeline: TimelineView | None
    curve: CurveView | None
    faults: tuple[FaultView, ...]
    recoveries: tuple[RecoveryView, ...]
    invariants: tuple[InvariantView, ...]
    lines: tuple[LineView, ...]
    left_out: int
    board: tuple[str, str, str]


@dataclass(frozen=True)
class TimesRow:
    """How long something took, over many recoveries."""

    name: str
    kind: str
    count: int
    cells: tuple[str, ...]
    strip: Markup


@dataclass(frozen=True)
class TimesView:
    """Recovery times: by phase over everything, and by scenario over its repeats."""

    by_phase: tuple[TimesRow, ...]
    by_scenario: tuple[TimesRow, ...]
    axis: Markup


@dataclass(frozen=True)
class Page:
    """The whole report."""

    title: str
    suite: str
    fine: bool
    headline: str
    figures: tuple[tuple[str, str], ...]
    problems: tuple[str, ...]
    scenarios: tuple[ScenarioView, ...]
    times: TimesView | None
    coverage: Coverage
    environment: tuple[tuple[str, str], ...]
    not_fixed: tuple[str, ...]
    replay: str
