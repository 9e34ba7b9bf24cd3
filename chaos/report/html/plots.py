"""Distributions of recovery times, and the loss beside the twin's. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from markupsafe import Markup

from chaos.report.html import svg
from chaos.report.html.model import CurveView
from chaos.report.html.svg import Node
from chaos.report.loss import Curves
from chaos.report.table import seconds

ROW, AXIS, CURVE = 22, 18, 140
# Shorter times are drawn at the left edge: a logarithm has no zero.
SHORTEST_S = 0.001
# A box is drawn from this many values on; fewer are shown one by one only.
BOX_FROM = 5
MOST_DOTS = 120
MOST_POINTS = 400


@dataclass(frozen=True)
class Scale:
    """A logarithmic scale in whole powers of ten, from a millisecond on."""

    powers: int

    @classmethod
    def over(cls, values_s: Sequence[float]) -> Scale:
        """The scale that holds them all."""
        longest = max(values_s, default=SHORTEST_S)
        return cls(max(1, math.ceil(math.log10(max(longest, SHORTEST_S) / SHORTEST_S) - 1e-9)))

    def x(self, value_s: float) -> float:
        """Where a time lies: 0 to 1. The edges are left free for the dots."""
        share = math.log10(max(value_s, SHORTEST_S) / SHORTEST_S) / self.powers
        return 0.02 + 0.96 * min(1.0, share)

    @property
    def marks_s(self) -> list[float]:
        """The powers of ten."""
        return [SHORTEST_S * 10**power for power in range(self.powers + 1)]


def axis(scale: Scale) -> Markup:
    """The scale's figures, for the head of a table."""
    node = Node("svg", width="100%", height=AXIS, aria_hidden="true")
    for mark in scale.marks_s:
        last = mark == scale.marks_s[-1]
        said = f"≤ {seconds(mark)}" if mark == SHORTEST_S else f"{mark:g} s" if mark >= 1 else seconds(mark)
        anchor = "end" if last else "start" if mark == SHORTEST_S else "middle"
        x = "100%" if last else "0" if mark == SHORTEST_S else svg.percent(scale.x(mark), 1)
        node.add(svg.text(x, 12, said, "tick", anchor))
    return Markup(node.__html__())


def strip(values_s: Sequence[float], scale: Scale, kind: str, label: str) -> Markup:
    """A dot for each value, a box over the middle half where there are enough, a line at the median."""
    parts = [svg.line(svg.percent(scale.x(mark), 1), 0, ROW, "grid") for mark in scale.marks_s]
    ordered = sorted(values_s)
    if len(ordered) >= BOX_FROM:
        low, _, high = quantiles(ordered, n=4, method="inclusive")
        left = scale.x(low)
        parts.append(svg.rect(svg.percent(left, 1), 4, svg.percent(scale.x(high) - left, 1), ROW - 8, "box"))
    dots = ordered if len(ordered) <= MOST_DOTS else _spread(ordered, MOST_DOTS)
    for place in dict.fromkeys(svg.percent(scale.x(value), 1) for value in dots):
        parts.append(Node("circle", cx=place, cy=ROW / 2, r=3, class_=f"dot {kind}"))
    if ordered:
        parts.append(svg.line(svg.percent(scale.x(median(ordered)), 1), 2, ROW - 2, "median"))
    return svg.drawing(ROW, *parts, label=label, class_="strip")


def _spread(ordered: Sequence[float], count: int) -> list[float]:
    """So many of them, evenly over their ranks, both ends included."""
    return [ordered[round(i * (len(ordered) - 1) / (count - 1))] for i in range(count)]


def curve(found: Curves, strikes: Sequence[tuple[str, int]]) -> CurveView:
    """Draw the loss over its twin's. `strikes`: faults and the steps that they struck."""
    every = [loss for _, loss in (*found.run, *found.twin)]
    low, high = min(every), max(every)
    first, last = found.run[0][0], max(found.run[-1][0], found.twin[-1][0] if found.twin else 0)
    steps = max(1, last - first)

    def path(points: Sequence[tuple[int, float]], class_: str) -> Node:
        places = [
            (svg.units(step - first, steps), 4 + (CURVE - 8) * (1 - (loss - low) / ((high - low) or 1.0)))
            for step, loss in _thinned(points)
        ]
        return svg.polyline(places, class_)

    paths = [path(found.twin, "twin")] if found.twin else []
    parts = [svg.line(svg.percent(step - first, steps), 0, CURVE, "struck") for _, step in strikes]
    parts.append(svg.stretched(0, CURVE, *paths, path(found.run, "run")))
    summary = _compared(found)
    drawing = svg.drawing(CURVE, *parts, label=f"loss by step: {summary}", class_="curve")
    return CurveView(drawing, summary, f"{low:.4g}", f"{high:.4g}", last, bool(found.twin))


def _compared(found: Curves) -> str:
    if not found.twin:
        return "no twin to compare with"
    if not found.differ:
        return f"equal to the twin's at each of {len(found.run)} steps"
    where = f"at {len(found.differ)} of {len(found.run)} steps, first at step {found.differ[0]}"
    return f"not the twin's {where}, by at most {found.worst:.3g}"


def _thinned(points: Sequence[tuple[int, float]]) -> Sequence[tuple[int, float]]:
    """The lowest and the highest of each stretch: a spike must not be thinned away."""
    if len(points) <= MOST_POINTS:
        return points
    size = math.ceil(2 * len(points) / MOST_POINTS)
    kept = []
    for start in range(0, len(points), size):
        part = points[start : start + size]
        both = {min(part, key=lambda point: point[1]), max(part, key=lambda point: point[1])}
        kept += sorted(both)
    return kept
