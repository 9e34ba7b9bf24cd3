from __future__ import annotations

from xml.etree import ElementTree

import pytest

from chaos.report.html import plots
from chaos.report.loss import Curves


def nodes(markup: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(markup).iter(tag))


def test_the_scale_holds_every_time_and_begins_at_a_millisecond() -> None:
    scale = plots.Scale.over([0.0, 0.02, 3.0])
    assert scale.marks_s == pytest.approx([0.001, 0.01, 0.1, 1.0, 10.0])
    assert scale.x(0.0) == scale.x(0.001) == pytest.approx(0.02)
    assert scale.x(0.1) == pytest.approx(0.5)
    assert scale.x(3.0) < scale.x(10.0) == pytest.approx(0.98)


def test_the_scale_of_nothing_can_be_drawn() -> None:
    assert plots.Scale.over([]).powers == 1
    assert "≤ 1 ms" in plots.axis(plots.Scale.over([]))


def test_few_values_are_shown_one_by_one() -> None:
    found = plots.strip([0.1, 0.2, 0.4], plots.Scale.over([1.0]), "detect", "three")
    assert len(nodes(found, "circle")) == 3
    assert nodes(found, "rect") == []


def test_a_box_holds_the_middle_half() -> None:
    scale = plots.Scale.over([1.0])
    box = nodes(plots.strip([0.01, 0.02, 0.1, 0.5, 1.0], scale, "detect", "five"), "rect")[0]
    left, width = (float((box.get(key) or "").rstrip("%")) for key in ("x", "width"))
    assert left == pytest.approx(scale.x(0.02) * 100, abs=0.1)
    assert left + width == pytest.approx(scale.x(0.5) * 100, abs=0.1)


def test_thousands_of_values_keep_both_ends_and_stay_small() -> None:
    values = [0.001 * (n + 1) for n in range(5000)]
    scale = plots.Scale.over(values)
    found = plots.strip(values, scale, "detect", "many")
    places = [float((node.get("cx") or "").rstrip("%")) for node in nodes(found, "circle")]
    assert len(places) <= plots.MOST_DOTS
    assert (min(places), max(places)) == pytest.approx((scale.x(0.001) * 100, scale.x(5.0) * 100), abs=0.1)


def test_the_curve_lies_over_its_twins() -> None:
    view = plots.curve(Curves(((0, 2.0), (1, 1.0)), ((0, 2.0), (1, 1.0)), (), 0.0), [("f1", 1)])
    assert view.summary == "equal to the twin's at each of 2 steps"
    assert [node.get("class") for node in nodes(view.drawing, "path")] == ["twin", "run"]
    assert [node.get("x1") for node in nodes(view.drawing, "line")] == ["100%"]
    assert (view.low, view.high, view.last_step) == ("1", "2", 1)


def test_a_curve_that_leaves_its_twin_says_where() -> None:
    view = plots.curve(Curves(((0, 2.0), (1, 1.5)), ((0, 2.0), (1, 1.0)), (1,), 0.5), [])
    assert view.summary == "not the twin's at 1 of 2 steps, first at step 1, by at most 0.5"


def test_a_curve_without_a_twin_or_of_one_step_can_be_drawn() -> None:
    view = plots.curve(Curves(((3, 2.0),), (), (), 0.0), [])
    assert (view.summary, view.twin) == ("no twin to compare with", False)


def test_a_spike_is_not_thinned_away() -> None:
    points = tuple((step, 9.0 if step == 7777 else 1.0) for step in range(10_000))
    view = plots.curve(Curves(points, (), (), 0.0), [])
    path = nodes(view.drawing, "path")[0].get("d") or ""
    heights = [float(point.split()[1]) for point in path[1:].split("L")]
    assert min(heights) == 4.0
    assert len(heights) <= plots.MOST_POINTS + 2
