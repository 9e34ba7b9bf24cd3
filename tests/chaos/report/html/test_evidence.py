from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos.report.html import evidence
from chaos.report.html.evidence import MOST_LINES, Shown, fault_view, recovery_views
from chaos.report.model import FaultReport
from chaos.report.stored import Line, lines_of, read, unanswered
from tests.chaos.histories import Job
from tests.chaos.report.folder import write_run


def lines(job: Job) -> tuple[Line, ...]:
    return lines_of("\n".join(json.dumps(event) for event in job.events))


def fault(**more: object) -> FaultReport:
    known: dict[str, object] = {
        "id": "f1",
        "name": "process.kill",
        "where": {"rank": 1},
        "when": {"step": 2, "phase": "backward"},
        "fired": True,
        "verified": False,
        "undone": False,
        "undo_verified": False,
        "evidence": {},
    }
    return FaultReport.model_validate(known | more)


def test_steps_are_left_out_of_the_lines_and_counted() -> None:
    found = lines(Job().steps(5).kill(1).finish())
    shown = Shown.of("s1", found)
    assert not {line.event["event"] for line in shown.lines} & {"step.begin", "step.commit"}
    assert shown.left_out == len(found) - len(shown.lines)


def test_with_too_many_lines_the_faults_stay() -> None:
    job = Job().steps(1)
    for _ in range(400):
        job.emit("straggler", rank=0)
    job.fault("process.kill", 1)
    shown = Shown.of("s1", lines(job))
    assert len(shown.lines) == MOST_LINES
    assert [line.event["event"] for line in shown.lines[-4:]] == [
        "fault.armed",
        "fault.reached",
        "fault.fired",
        "fault.verified",
    ]
    assert [line.number for line in shown.lines] == sorted(line.number for line in shown.lines)


def test_an_anchor_is_given_to_shown_lines_only() -> None:
    found = lines(Job().steps(1).finish())
    shown = Shown.of("s1", found)
    dull = next(line.number for line in found if line.event["event"] == "step.commit")
    assert shown.anchor(shown.lines[0].number) == f"s1-line-{shown.lines[0].number}"
    assert shown.anchor(dull) is None


def test_the_stages_of_a_fault_lead_to_their_lines() -> None:
    job = Job().steps(1)
    job.fault("process.stop", 1, undone=True)
    shown = Shown.of("s1", lines(job))
    view = fault_view(fault(), "s1-fault-1", shown, {"has_undo": True})
    assert [stage.name for stage in view.stages] == [
        "armed",
        "reached",
        "fired",
        "verified",
        "undone",
        "undo verified",
    ]
    assert {stage.line for stage in view.stages} <= {line.id for line in shown.views()}
    assert {stage.proven for stage in view.stages} == {"proven"}


def test_without_a_history_the_reports_own_evidence_is_shown() -> None:
    told = {
        "fired": {"what": "SIGKILL sent", "proven": True, "source": "kernel"},
        "failed": "nobody was there",
    }
    view = fault_view(fault(evidence=told), "a", None, {})
    assert [(stage.name, stage.said, stage.line) for stage in view.stages] == [
        ("fired", "SIGKILL sent", None),
        ("failed", "nobody was there", None),
    ]


def test_a_fault_without_an_undo_is_not_asked_for_one() -> None:
    assert [word for word, _ in fault_view(fault(), "a", None, {"has_undo": False}).marks] == [
        "fired",
        "verified",
    ]
    assert len(fault_view(fault(), "a", None, {}).marks) == 4


def test_recoveries_lead_to_their_faults_lines_and_place(tmp_path: Path) -> None:
    stored = read(write_run(tmp_path, only=["kill_in_backward.1"]))
    report, scenario = stored.report.scenarios[0], stored.scenarios["kill_in_backward.1"]
    assert scenario.lines is not None
    shown = Shown.of("s1", scenario.lines)
    anchors = {"f1": "s1-fault-1", "f2": "s1-fault-2", "f3": "s1-fault-3"}
    views = recovery_views(report.recoveries, "s1", anchors, shown, scenario.history, unanswered(report))
    assert [view.id for view in views] == ["s1-recovery-1", "s1-recovery-2"]
    assert views[0].faults == (("f1", "s1-fault-1"),)
    assert dict(views[0].phases)["regroup"] == "50 ms"
    for view in views:
        assert view.line in {line.id for line in shown.views()}
        assert view.window is not None
        assert 0 < view.window[0] < view.window[1] <= 100


def test_a_history_that_counts_recoveries_otherwise_places_none(tmp_path: Path) -> None:
    stored = read(write_run(tmp_path, only=["kill_in_backward.1"]))
    report, scenario = stored.report.scenarios[0], stored.scenarios["kill_in_backward.1"]
    views = recovery_views(report.recoveries[:1], "s1", {}, None, scenario.history, frozenset())
    assert [(view.window, view.line, view.faults) for view in views] == [(None, None, ())]


@pytest.mark.parametrize(
    ("given", "text"),
    [({"rank": 2}, "rank 2"), ({"collective": {"nth": 1}}, 'collective {"nth": 1}'), ({}, "anywhere")],
)
def test_addresses_are_read_aloud(given: dict[str, object], text: str) -> None:
    assert evidence.address(given) == text


def test_long_text_is_cut_and_marked() -> None:
    assert evidence.cut("abc", 3) == "abc"
    assert evidence.cut("abcdef", 4) == "ab …"
