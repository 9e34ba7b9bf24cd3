"""From a run's folder, as read, to what the page shows. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from pydantic import JsonValue

from chaos.errors import Exit
from chaos.history import History
from chaos.records import list_of, text_of
from chaos.recoveries import PHASES
from chaos.report.coverage import cell_of, coverage
from chaos.report.html import plots
from chaos.report.html.evidence import Shown, duration, fault_view, plain, recovery_views
from chaos.report.html.model import (
    CurveView,
    InvariantView,
    Page,
    ScenarioView,
    TimelineView,
    TimesRow,
    TimesView,
    Verdict,
)
from chaos.report.html.timeline import counted, timeline
from chaos.report.lanes import lanes_of
from chaos.report.loss import curves
from chaos.report.model import InvariantReport, RecoveryReport, Report, ScenarioReport
from chaos.report.stored import Scenario, Stored, unanswered
from chaos.report.table import cells

SIGNS = {"PASS": "✓", "VIOLATED": "✗", "INCONCLUSIVE": "?", "ERROR": "!", "NOT_APPLICABLE": "–"}
GRAVITY = ("VIOLATED", "INCONCLUSIVE", "PASS", "NOT_APPLICABLE")
OFFENCES = ("first", "worst", "last")
MEANS = {
    Exit.PASSED: "all as expected",
    Exit.VIOLATED: "an invariant was violated, or a scenario did not end as it states",
    Exit.INCONCLUSIVE: "inconclusive",
    Exit.LEFTOVERS: "clean-up incomplete",
    Exit.INTERNAL: "internal error",
    Exit.INTERRUPTED: "interrupted and rolled back",
}


def page(stored: Stored, catalogue: Iterable[str] = ()) -> Page:
    """The page of a run.

    Args:
        stored: the run's folder, as read.
        catalogue: names of all faults that there are, for the blanks of the coverage.
    """
    report = stored.report
    scenarios = tuple(
        scenario_view(f"s{number}", found, stored.scenarios[found.name])
        for number, found in enumerate(report.scenarios, start=1)
    )
    unexpected = len(report.summary.unexpected)
    total = counted(len(scenarios), "scenario")
    headline = f"{total}, all as expected" if not unexpected else f"{total}, {unexpected} not as expected"
    faults = [fault for scenario in report.scenarios for fault in scenario.faults]
    planned = [(cell_of(fault.name, fault.where, fault.when), fault.verified) for fault in faults]
    return Page(
        title=f"{report.suite}: {headline}",
        suite=report.suite,
        fine=report.exit_code == Exit.PASSED,
        headline=headline,
        figures=_figures(report),
        problems=_problems(report.environment),
        scenarios=scenarios,
        times=times_view(report),
        coverage=coverage(planned, catalogue),
        environment=tuple(_flat(report.environment)),
        not_fixed=tuple(report.not_fixed_by_seed),
        replay=report.replay,
    )


def _figures(report: Report) -> tuple[tuple[str, str], ...]:
    known = {int(code): said for code, said in MEANS.items()}
    counts = ", ".join(f"{count} {verdict}" for verdict, count in report.summary.scenarios.items())
    return (
        ("verdicts", counts or "none"),
        ("exit code", f"{report.exit_code}: {known.get(report.exit_code, 'see the documentation')}"),
        ("duration", f"{report.wall_s:.1f} s"),
        ("step, median", duration(report.summary.step_s)),
        ("seed", str(report.seed)),
        ("plan", report.plan_hash[:12]),
    )


def _problems(environment: Mapping[str, JsonValue]) -> tuple[str, ...]:
    left = environment.get("left_over")
    found = [f"left over: {item}" for item in left] if isinstance(left, list) else []
    found += ["interrupted by the user"] if environment.get("interrupted") is True else []
    return tuple(found)


def _flat(environment: Mapping[str, JsonValue]) -> Iterable[tuple[str, str]]:
    for key, value in environment.items():
        if isinstance(value, dict):
            yield from ((f"{key}: {name}", _told(item)) for name, item in value.items())
        else:
            yield key, _told(value)


def _told(value: JsonValue) -> str:
    return value if isinstance(value, str) else plain(value)


def scenario_view(anchor: str, found: ScenarioReport, stored: Scenario) -> ScenarioView:
    """One scenario; `anchor` is unique on the page."""
    anchors = {fault.id: f"{anchor}-fault-{n}" for n, fault in enumerate(found.faults, start=1)}
    history = stored.history if stored.lines is not None else None
    shown = Shown.of(anchor, stored.lines) if stored.lines is not None else None
    steps = [(fault.id, fault.step) for fault in found.faults if fault.step is not None]
    faults, recovery = cells(found)[2:4]
    listed = (item for item in list_of(stored.planned, "faults") if isinstance(item, dict))
    planned = {str(item.get("id")): item for item in listed}
    recoveries = recovery_views(found.recoveries, anchor, anchors, shown, history, unanswered(found))
    return ScenarioView(
        id=anchor,
        name=found.name,
        description=text_of(stored.planned, "description") or "",
        verdict=_verdict(found.verdict, found.expected, found.as_expected),
        reason=found.reason,
        expected=found.expected,
        figures=(
            ("seed", str(found.seed)),
            ("duration", duration(found.wall_s)),
            ("step, median", duration(found.step_s)),
            ("recovery, median / worst", recovery),
        ),
        replay=found.replay,
        timeline=_timeline(found, stored, shown, anchors, [recovery.id for recovery in recoveries]),
        curve=_curve(history, stored.twin, steps),
        faults=tuple(
            fault_view(fault, anchors[fault.id], shown, planned.get(fault.id, {})) for fault in found.faults
        ),
        recoveries=recoveries,
        invariants=tuple(_invariant(item) for item in sorted(found.invariants, key=_gravity)),
        lines=shown.views() if shown else (),
        left_out=shown.left_out if shown else 0,
        board=(faults, recovery, duration(found.wall_s)),
    )


def _verdict(word: str, expected: str, as_expected: bool) -> Verdict:
    note = ""
    if not as_expected:
        note = f"expected {expected}"
    elif word != "PASS":
        note = "as expected"
    return Verdict(word, SIGNS[word], as_expected, note)


def _timeline(
    found: ScenarioReport,
    stored: Scenario,
    shown: Shown | None,
    anchors: Mapping[str, str],
    recoveries: Sequence[str],
) -> TimelineView | None:
    if not stored.lines or shown is None:
        return None
    return timeline(
        lanes_of(stored.lines, unanswered(found)),
        fault_anchor=anchors.get,
        recovery_anchor=dict(enumerate(recoveries)).get,
        line_anchor=shown.anchor,
    )


def _curve(
    history: History | None, twin: History | None, steps: Sequence[tuple[str, int]]
) -> CurveView | None:
    found = curves(history, twin) if history is not None else None
    return plots.curve(found, steps) if found is not None else None


def _gravity(item: InvariantReport) -> int:
    return GRAVITY.index(item.verdict)


def _invariant(item: InvariantReport) -> InvariantView:
    offences = ((label, getattr(item, label)) for label in OFFENCES)
    # A single offence is first, worst and last at once, and often the whole finding.
    told: dict[str, str] = {}
    for label, text in offences:
        if text and text != item.detail and text not in told.values():
            told[label] = text
    verdict = Verdict(item.verdict, SIGNS[item.verdict], item.verdict in ("PASS", "NOT_APPLICABLE"))
    return InvariantView(verdict, item.name, item.detail, tuple(told.items()))


# -- times -------------------------------------------------------------------------------------------------


def times_view(report: Report) -> TimesView | None:
    """Recovery times as distributions; None if nothing recovered."""
    recoveries = [recovery for scenario in report.scenarios for recovery in scenario.recoveries]
    by_phase = {name: _values(recoveries, name) for name in (*PHASES, "total", "measured")}
    every = [value for values in by_phase.values() for value in values]
    if not every:
        return None
    scale = plots.Scale.over(every)
    groups: dict[str, list[RecoveryReport]] = defaultdict(list)
    names = {scenario.name for scenario in report.scenarios}
    for scenario in report.scenarios:
        groups[base_name(scenario.name, names)] += scenario.recoveries
    return TimesView(
        by_phase=tuple(_row(name, values, scale, ()) for name, values in by_phase.items() if values),
        by_scenario=tuple(
            _row(name, _whole(found), scale, tuple(_median(found, phase) for phase in PHASES))
            for name, found in groups.items()
            if _whole(found)
        ),
        axis=plots.axis(scale),
    )


def base_name(name: str, names: Iterable[str]) -> str:
    """The scenario that this is a repeat of: ``kill.2`` is one of ``kill`` if there is a ``kill.1``."""
    base, dot, number = name.rpartition(".")
    return base if dot and number.isdigit() and f"{base}.1" in names else name


def _values(found: Iterable[RecoveryReport], name: str) -> list[float]:
    values = (getattr(recovery, f"{name}_s") for recovery in found)
    return [float(value) for value in values if value is not None]


def _whole(found: Iterable[RecoveryReport]) -> list[float]:
    """The judge's time of each recovery; the target's own where no fault of ours caused it."""
    times = (r.total_s if r.measured_s is None else r.measured_s for r in found)
    return [time for time in times if time is not None]


def _median(found: Iterable[RecoveryReport], phase: str) -> str:
    values = _values(found, phase)
    return duration(median(values)) if values else "–"


def _row(name: str, values: Sequence[float], scale: plots.Scale, cells: tuple[str, ...]) -> TimesRow:
    middle, worst = duration(median(values)), duration(max(values))
    label = f"{name}: {counted(len(values), 'recovery')}, median {middle}, worst {worst}"
    kind = name if name in PHASES else "whole"
    return TimesRow(name, kind, len(values), (*cells, middle, worst), plots.strip(values, scale, kind, label))
