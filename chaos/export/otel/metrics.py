"""A run's report as metrics: how long recoveries took, by phase; what the faults did; the verdicts. Pure.

From report.json alone, so that a record without histories has them too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from chaos.export.otel.telemetry import Count, Distribution, Metric, Value, attributes
from chaos.recoveries import PHASES
from chaos.report.model import Report

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0)
"""From a phase of a recovery in memory to a restart of a whole job."""

Labels = tuple[tuple[str, Value], ...]


def metrics_of(report: Report) -> tuple[Metric, ...]:
    """The metrics of a whole run; one without a point is left out."""
    whole = [
        (attributes("scenario", name=scenario.name), took)
        for scenario in report.scenarios
        for recovery in scenario.recoveries
        if (took := recovery.total_s if recovery.measured_s is None else recovery.measured_s) is not None
    ]
    phases = [
        (attributes("recovery", phase=phase), took)
        for scenario in report.scenarios
        for recovery in scenario.recoveries
        for phase in PHASES
        if (took := getattr(recovery, f"{phase}_s")) is not None
    ]
    struck = [
        attributes("fault", name=fault.name, fired=fault.fired, verified=fault.verified)
        for scenario in report.scenarios
        for fault in scenario.faults
    ]
    verdicts = [
        attributes("scenario", verdict=scenario.verdict, as_expected=scenario.as_expected)
        for scenario in report.scenarios
    ]
    found = (
        Metric(
            "torch_chaos.recovery.duration",
            "s",
            "From the fault to the next step that the job committed.",
            tuple(_distributions(whole)),
        ),
        Metric(
            "torch_chaos.recovery.phase.duration",
            "s",
            "How long each phase of a recovery took.",
            tuple(_distributions(phases)),
        ),
        Metric(
            "torch_chaos.faults",
            "{fault}",
            "Planned faults: which fired, and of which it was verified from outside.",
            tuple(_counts(struck)),
        ),
        Metric(
            "torch_chaos.scenarios",
            "{scenario}",
            "Scenarios by verdict.",
            tuple(_counts(verdicts)),
        ),
    )
    return tuple(metric for metric in found if metric.points)


def _counts(told: Iterable[dict[str, Value]]) -> Iterator[Count]:
    for labels, number in Counter(tuple(each.items()) for each in told).items():
        yield Count(dict(labels), number)


def _distributions(told: Iterable[tuple[dict[str, Value], float]]) -> Iterator[Distribution]:
    values: dict[Labels, list[float]] = defaultdict(list)
    for labels, value in told:
        values[tuple(labels.items())].append(value)
    for key, found in values.items():
        # A bucket's upper bound belongs to it.
        counts = Counter(bisect_left(BOUNDS_S, value) for value in found)
        buckets = tuple(counts[position] for position in range(len(BOUNDS_S) + 1))
        yield Distribution(dict(key), BOUNDS_S, buckets, sum(found), min(found), max(found))
