from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from chaos.report.html.model import TimelineView
from chaos.report.html.timeline import MOST_TICKS, counted, nice, thinned, timeline
from chaos.report.lanes import lanes_of
from chaos.report.stored import lines_of
from tests.chaos.histories import Events, Job
from tests.chaos.report.folder import many_steps


def drawn(events: Events, recovery: str | None = "r") -> tuple[TimelineView, ElementTree.Element]:
    view = timeline(
        lanes_of(lines_of("\n".join(json.dumps(event) for event in events))),
        fault_anchor={"f1": "fault-1"}.get,
        recovery_anchor=lambda number: recovery and f"{recovery}-{number}",
        line_anchor=lambda number: f"line-{number}",
    )
    return view, ElementTree.fromstring(view.drawing)


def classes(found: ElementTree.Element) -> set[str]:
    return {word for node in found.iter() for word in (node.get("class") or "").split()}


def test_everything_that_happened_has_its_sign() -> None:
    view, found = drawn(Job(2).steps(2).kill(1).steps(2).finish().events)
    phases = {"detect", "fence", "regroup", "transfer", "resume"}
    assert phases | {"fault", "struck", "commit", "adopted", "rollback", "generation", "process"} <= classes(
        found
    )
    assert phases | {"fault", "commit", "adopted", "rollback", "generation", "process"} <= view.kinds
    assert [name for name, _ in view.names] == ["faults", "job", "rank 0", "rank 1", "seconds"]


def test_the_lanes_names_are_as_high_as_the_drawing() -> None:
    view, found = drawn(Job(2).steps(1).finish().events)
    assert sum(height for _, height in view.names) == int(found.get("height") or 0)


def test_faults_recoveries_and_marks_lead_to_what_is_said_of_them() -> None:
    _, found = drawn(Job(2).steps(1).kill(1).finish().events)
    targets = [node.get("href") for node in found.iter("a")]
    assert targets.count("#fault-1") == 1
    assert targets.count("#r-0") == 5
    assert any((target or "").startswith("#line-") for target in targets)


def test_a_recovery_that_is_described_nowhere_is_drawn_without_a_link() -> None:
    _, found = drawn(Job(2).steps(1).kill(1).finish().events, recovery=None)
    assert "detect" in classes(found)
    assert not any("recovery" in (node.get("aria-label") or "") for node in found.iter("a"))


def test_the_summary_says_it_in_words() -> None:
    view, _ = drawn(Job(2).steps(2).kill(1).finish().events)
    assert view.summary.split(", ")[1:] == [
        "1 fault",
        "1 recovery",
        "6 committed steps",
        "1 adopted state",
        "1 rollback",
    ]


def test_a_long_history_stays_small() -> None:
    view, _ = drawn(many_steps(4, 600))
    assert "committed 600 times, steps 0 to 599, drawn as 300 ticks" in view.drawing
    assert len(view.drawing) < 40_000


def test_many_marks_wait_for_the_zoom() -> None:
    job = Job(2).steps(1)
    for _ in range(201):
        job.emit("straggler", rank=0)
    assert drawn(job.events)[0].crowded
    assert not drawn(Job(2).steps(1).kill(1).finish().events)[0].crowded


def test_ticks_too_close_to_tell_apart_are_one() -> None:
    assert thinned([3, 1, 2]) == [1, 2, 3]
    kept = thinned(range(1_000_000))
    assert len(kept) == MOST_TICKS
    assert kept[0] == 0


@pytest.mark.parametrize(("rough", "step"), [(0.03, 0.05), (0.3, 0.5), (1, 1), (1.1, 2), (6, 10), (0, 1)])
def test_the_axis_has_round_figures(rough: float, step: float) -> None:
    assert nice(rough) == pytest.approx(step)


def test_words_are_counted() -> None:
    assert [counted(n, "recovery") for n in (0, 1, 2)] == ["0 recoveries", "1 recovery", "2 recoveries"]
