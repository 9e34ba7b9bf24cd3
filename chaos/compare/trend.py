"""How runs of one suite went over time: a row for each, and the newest against all before it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from chaos.compare.compare import Comparison, Limits, compare
from chaos.compare.samples import TIMED, samples
from chaos.report.model import Report

HEADINGS = ("run", "commit", "plan", "verdicts", "recoveries", *TIMED)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run. `median_s`: over all its scenarios, by what was timed; absent where nothing was."""

    run: str
    commit: str | None
    plan: str
    verdicts: dict[str, int]
    unexpected: int
    recoveries: int
    median_s: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Trend:
    """The runs of one suite, oldest first, and what the newest changed; None if there is one run only."""

    suite: str
    rows: tuple[Row, ...]
    newest: Comparison | None


def trends(runs: Sequence[tuple[str, Report]], limits: Limits | None = None) -> list[Trend]:
    """A trend for each suite.

    Args:
        runs: name and report of each run, oldest first.
        limits: when the newest differs from those before it.
    """
    suites: dict[str, list[tuple[str, Report]]] = {}
    for name, report in runs:
        suites.setdefault(report.suite, []).append((name, report))
    return [
        Trend(
            suite=suite,
            rows=tuple(_row(name, report) for name, report in found),
            newest=_newest([report for _, report in found], limits),
        )
        for suite, found in sorted(suites.items())
    ]


def _newest(reports: Sequence[Report], limits: Limits | None) -> Comparison | None:
    return compare(reports[:-1], reports[-1:], limits) if len(reports) > 1 else None


def _row(name: str, report: Report) -> Row:
    found = samples([report])
    times: dict[str, list[float]] = {}
    for (_, timed), values in found.times.items():
        times.setdefault(timed, []).extend(values)
    commit = report.environment.get("commit")
    return Row(
        run=name,
        commit=commit if isinstance(commit, str) else None,
        plan=report.plan_hash[:8],
        verdicts=report.summary.scenarios,
        unexpected=len(report.summary.unexpected),
        recoveries=sum(len(scenario.recoveries) for scenario in report.scenarios),
        median_s={timed: median(times[timed]) for timed in TIMED if timed in times},
    )
