from __future__ import annotations

from xml.etree import ElementTree

from chaos.report.html import svg


def test_nothing_said_becomes_markup() -> None:
    node = svg.link("x", 'a"b<c>', svg.rect("0%", 0, "5%", 3, "bar", "<b>&\x00\x1b"))
    found = ElementTree.fromstring(svg.drawing(10, node, label="<i>"))
    assert found.get("aria-label") == "<i>"
    assert found[0].get("aria-label") == 'a"b<c>'
    assert found[0][0][0].text == "<b>&"


def test_places_stay_on_the_drawing() -> None:
    assert svg.percent(1, 4) == "25%"
    assert svg.percent(-1, 4) == "0%"
    assert svg.percent(9, 4) == "100%"
    assert svg.percent(1, 0) == "0%"
    assert svg.units(1, 3) == 333333
    assert svg.units(5, 0) == 0


def test_many_ticks_are_one_path() -> None:
    path = svg.ticks([0, 50, 100], 14, "commit", "rank 0").element
    assert path.get("d") == "M0 0v14M50 0v14M100 0v14"


def test_a_link_that_is_not_in_order_is_passed_over_by_the_tab_key() -> None:
    assert svg.link("a", "b").element.get("tabindex") is None
    assert svg.link("a", "b", in_order=False).element.get("tabindex") == "-1"
