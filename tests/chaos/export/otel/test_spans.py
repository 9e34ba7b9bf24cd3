"""A history as spans: no library of OpenTelemetry is needed for that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos.export.otel.run import telemetry
from chaos.export.otel.spans import spans_of
from chaos.export.otel.telemetry import Span, attributes
from chaos.recoveries import PHASES
from chaos.report.lanes import lanes_of
from chaos.report.stored import Stored, read, unanswered
from tests.chaos.report.folder import write_run

STARTED_S = 1_800_000_000.0


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return read(write_run(tmp_path_factory.mktemp("run")))


@pytest.fixture(scope="module")
def spans(stored: Stored) -> list[Span]:
    return list(spans_of(stored, STARTED_S))


def of(spans: list[Span], scenario: str) -> list[Span]:
    root = next(span for span in spans if span.name == f"scenario {scenario}")
    return [span for span in spans if span.trace_id == root.trace_id]


def test_a_scenario_is_a_trace_and_its_root_says_what_came_of_it(stored: Stored, spans: list[Span]) -> None:
    roots = [span for span in spans if span.parent_id is None]
    assert [root.name for root in roots] == [f"scenario {name}" for name in stored.scenarios]
    assert len({root.trace_id for root in roots}) == len(roots)
    assert len({(span.trace_id, span.span_id) for span in spans}) == len(spans)
    stale = of(spans, "stale_state")[0]
    assert stale.attributes["torch_chaos.scenario.verdict"] == "VIOLATED"
    assert "replicas_agree" in stale.attributes["torch_chaos.scenario.violated"]  # type: ignore[operator]
    assert stale.error.startswith("VIOLATED: ")
    assert of(spans, "kill_in_backward.1")[0].error == ""


def test_faults_and_recoveries_are_children_and_phases_theirs(spans: list[Span]) -> None:
    root, *rest = of(spans, "kill_in_backward.1")
    assert [span.name for span in rest] == [
        *["fault process.kill"] * 3,
        *["recovery", *(f"recovery.{phase}" for phase in PHASES)] * 2,
    ]
    recoveries = [span for span in rest if span.name == "recovery"]
    for span in rest:
        number = span.attributes.get("torch_chaos.recovery.number")
        parent = recoveries[int(str(number))] if span.name.startswith("recovery.") else root
        assert span.parent_id == parent.span_id
        assert root.start_ns <= span.start_ns <= span.end_ns <= root.end_ns
    faults = {span.attributes["torch_chaos.fault.id"]: span for span in rest if span.name.startswith("fault")}
    # A recovery is linked to the faults that it answers.
    assert [[*r.links] for r in recoveries] == [
        [faults[name].span_id for name in names] for names in (["f1"], ["f2", "f3"])
    ]


def test_the_times_are_those_of_the_lanes(stored: Stored, spans: list[Span]) -> None:
    name = "kill_in_backward.1"
    scenario = next(each for each in stored.report.scenarios if each.name == name)
    lanes = lanes_of(stored.scenarios[name].lines or (), unanswered(scenario))
    root, *rest = of(spans, name)
    drawn = sorted((span.kind, span.start_s, span.end_s) for span in lanes.spans if span.number is not None)
    sent = sorted(
        (
            str(span.attributes["torch_chaos.recovery.phase"]),
            (span.start_ns - root.start_ns) / 1e9,
            (span.end_ns - root.start_ns) / 1e9,
        )
        for span in rest
        if span.name.startswith("recovery.")
    )
    assert [kind for kind, *_ in sent] == [kind for kind, *_ in drawn]
    for (_, *mine), (_, *theirs) in zip(sent, drawn, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-8)
    fault, strike = rest[0], lanes.strikes[0]
    assert (fault.start_ns - root.start_ns) / 1e9 == pytest.approx(strike.start_s, abs=1e-8)
    assert root.end_ns - root.start_ns == round(lanes.end_s * 1e9)


def test_a_fault_tells_its_stages_and_its_evidence(spans: list[Span]) -> None:
    fault = of(spans, "hostile_words")[1]
    stages = ["reached", "fired", "verified", "undone", "undo_verified"]
    assert [moment.name for moment in fault.moments] == [f"torch_chaos.fault.{stage}" for stage in stages]
    assert fault.attributes["torch_chaos.fault.lanes"] == ("rank 1",)
    assert fault.attributes["torch_chaos.fault.undo_verified"] is True
    assert fault.moments[3].at_ns == fault.end_ns


def test_each_step_is_told_once_when_the_job_first_committed_it(spans: list[Span]) -> None:
    root = of(spans, "torchrun")[0]
    numbers = [moment.attributes["torch_chaos.step.number"] for moment in root.moments]
    # The job went back to its checkpoint and committed two of them again.
    assert numbers == sorted(set(numbers)) == list(range(len(numbers)))
    assert [moment.at_ns for moment in root.moments] == sorted(moment.at_ns for moment in root.moments)


def test_the_same_report_gives_the_same_ids_and_another_run_others(stored: Stored, spans: list[Span]) -> None:
    assert list(spans_of(stored, STARTED_S)) == spans
    later = list(spans_of(stored, STARTED_S + 1))
    assert {span.trace_id for span in later}.isdisjoint(span.trace_id for span in spans)


def test_the_time_of_day_is_the_historys_own_where_it_has_one(tmp_path: Path) -> None:
    folder = write_run(tmp_path, only=["stale_state"])
    path = folder / "stale_state" / "history.jsonl"
    root = next(spans_of(read(folder), STARTED_S))
    assert root.start_ns == STARTED_S * 1e9
    assert root.attributes["torch_chaos.scenario.time_from"] == "the run's start"
    first = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    said = {"t": first["t"] + 2, "event": "scenario.start", "unix_s": STARTED_S + 100}
    path.write_text(f"{json.dumps(said)}\n{path.read_text(encoding='utf-8')}", encoding="utf-8")
    root = next(spans_of(read(folder), STARTED_S))
    assert root.start_ns == (STARTED_S + 98) * 1e9
    assert root.attributes["torch_chaos.scenario.time_from"] == "the history"


def test_scenarios_without_a_history_are_left_out_of_the_spans_and_told(tmp_path: Path) -> None:
    folder = write_run(tmp_path, only=["stale_state", "torchrun"])
    (folder / "stale_state" / "history.jsonl").unlink()
    (folder / "torchrun" / "history.jsonl").write_text("", encoding="utf-8")
    told = telemetry(read(folder), STARTED_S)
    assert (told.spans, told.left_out) == ((), ("stale_state", "torchrun"))
    verdicts = next(metric for metric in told.metrics if metric.name == "torch_chaos.scenarios")
    assert sum(point.value for point in verdicts.points) == 2  # type: ignore[union-attr]


def test_what_is_unknown_is_left_out_and_what_no_wire_carries_is_replaced() -> None:
    told = attributes("x", a=None, b=False, c=["p", 3], d="half \ud83d", e=1.5)
    assert told == {
        "torch_chaos.x.b": False,
        "torch_chaos.x.c": ("p", "3"),
        "torch_chaos.x.d": "half ?",
        "torch_chaos.x.e": 1.5,
    }
