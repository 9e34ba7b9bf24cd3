from __future__ import annotations

from chaos.export.otel.metrics import BOUNDS_S, metrics_of
from chaos.export.otel.telemetry import Count, Distribution, Metric
from chaos.report.model import Report
from tests.chaos.report.sample import report


def by_name(**more: object) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics_of(Report.model_validate({**report(), **more}))}


def distributions(metric: Metric, label: str) -> dict[object, Distribution]:
    return {point.attributes[label]: point for point in metric.points if isinstance(point, Distribution)}


def counts(metric: Metric) -> dict[tuple[object, ...], int]:
    return {tuple(p.attributes.values()): p.value for p in metric.points if isinstance(p, Count)}


def test_recoveries_are_a_histogram_by_scenario_and_one_by_phase() -> None:
    found = by_name()
    whole = distributions(found["torch_chaos.recovery.duration"], "torch_chaos.scenario.name")
    told = Report.model_validate(report())
    took = {s.name: [r.measured_s for r in s.recoveries] for s in told.scenarios if s.recoveries}
    assert {name: sum(point.counts) for name, point in whole.items()} == {n: len(t) for n, t in took.items()}
    point = whole["kill_in_backward"]
    assert (point.least, point.most) == (min(took["kill_in_backward"]), max(took["kill_in_backward"]))  # type: ignore[type-var]
    phases = distributions(found["torch_chaos.recovery.phase.duration"], "torch_chaos.recovery.phase")
    assert list(phases) == ["detect", "fence", "regroup", "transfer", "resume"]
    assert {sum(point.counts) for point in phases.values()} == {sum(map(len, took.values()))}
    assert found["torch_chaos.recovery.duration"].unit == "s"


def test_a_value_on_a_bound_is_in_the_bucket_below_it() -> None:
    raw = report()
    first = Report.model_validate(raw).scenarios[0]
    recovery = first.recoveries[0].model_copy(update={"measured_s": BOUNDS_S[3]})
    late = recovery.model_copy(update={"measured_s": BOUNDS_S[-1] + 1})
    unknown = recovery.model_copy(update={"measured_s": None, "total_s": None})
    scenario = first.model_copy(update={"recoveries": [recovery, late, unknown]})
    found = by_name(scenarios=[scenario.model_dump()])["torch_chaos.recovery.duration"]
    (point,) = distributions(found, "torch_chaos.scenario.name").values()
    assert len(point.counts) == len(BOUNDS_S) + 1
    assert {position for position, number in enumerate(point.counts) if number} == {3, len(BOUNDS_S)}
    assert point.total == BOUNDS_S[3] + BOUNDS_S[-1] + 1


def test_faults_and_verdicts_are_counted() -> None:
    found = by_name()
    assert counts(found["torch_chaos.faults"]) == {
        ("process.kill", True, True): 12,
        ("process.stop", False, False): 1,
    }
    assert counts(found["torch_chaos.scenarios"]) == {
        ("PASS", True): 1,
        ("VIOLATED", False): 1,
        ("VIOLATED", True): 1,
        ("PASS", False): 1,
        ("INCONCLUSIVE", False): 1,
        ("ERROR", False): 1,
    }


def test_a_metric_without_a_point_is_left_out() -> None:
    assert by_name(scenarios=[]) == {}
