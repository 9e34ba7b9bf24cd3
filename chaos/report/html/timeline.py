"""The timeline of one scenario: a lane for the job, each node and each rank. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from chaos.report.html import svg
from chaos.report.html.model import TimelineView
from chaos.report.html.svg import Node
from chaos.report.lanes import JOB, Lanes, Mark, Step, Strike
from chaos.report.table import seconds

STRIP, JOB_HEIGHT, LANE, AXIS = 18, 34, 24, 18
FINE = 5
# A lane holds at most this many ticks: what lies closer together is drawn as one.
MOST_TICKS = 400
# With more faults than this their names would lie on each other.
MOST_NAMES = 24
# And with more marks than this, so would they.
MOST_MARKS = 200
SHAPES = {
    "collective": "M0-5 5 0 0 5-5 0z",
    "worker.exit": "M-4-4 4 4M4-4-4 4",
    "group.release": "M-4 4 0-4 4 4z",
    "other": "M-4-4h8v8h-8z",
}


class Place:
    """Where things go: times to percent, lanes to pixels."""

    def __init__(self, lanes: Lanes) -> None:
        self.whole = max(lanes.end_s, 1e-9)
        self.top: dict[str, int] = {}
        at = STRIP
        for name in lanes.names:
            self.top[name] = at
            at += self.height(name)
        self.bottom = at

    @staticmethod
    def height(lane: str) -> int:
        """Pixels of a lane."""
        return JOB_HEIGHT if lane == JOB else LANE

    def x(self, at_s: float) -> str:
        """A moment as a place."""
        return svg.percent(at_s, self.whole)

    def width(self, start_s: float, end_s: float) -> str:
        """A duration as a width."""
        return svg.percent(max(0.0, end_s - max(0.0, start_s)), self.whole)


def timeline(
    lanes: Lanes,
    *,
    fault_anchor: Callable[[str], str | None],
    recovery_anchor: Callable[[int], str | None],
    line_anchor: Callable[[int], str | None],
) -> TimelineView:
    """Draw the lanes.

    Args:
        lanes: what to draw.
        fault_anchor: where a fault's evidence is, by its id.
        recovery_anchor: where a recovery is described, by its number from 0.
        line_anchor: where a line of the history is shown, None if it is not.
    """
    place = Place(lanes)
    parts = [
        *_stripes(lanes, place),
        *_axis(place),
        *_shades(lanes.strikes, place),
        *_spans(lanes, place, recovery_anchor),
        *_ticks(lanes, place),
        *_marks(lanes.marks, place, line_anchor),
        *_names(lanes.strikes, place, fault_anchor),
    ]
    summary = _summary(lanes)
    drawing = svg.drawing(place.bottom + AXIS, *parts, label=f"timeline: {summary}", class_="lanes")
    names = (("faults", STRIP), *((name, place.height(name)) for name in lanes.names), ("seconds", AXIS))
    return TimelineView(drawing, names, summary, _kinds(lanes), len(lanes.marks) > MOST_MARKS)


def _kinds(lanes: Lanes) -> frozenset[str]:
    """What the legend has to explain."""
    kinds = {span.kind for span in lanes.spans} | {step.outcome for step in lanes.steps}
    kinds |= {mark.kind if mark.kind in (*SHAPES, "generation") else "other" for mark in lanes.marks}
    return frozenset(kinds | ({"fault"} if lanes.strikes else set()))


def _summary(lanes: Lanes) -> str:
    outcomes = Counter(step.outcome for step in lanes.steps)
    recoveries = len({span.number for span in lanes.spans if span.number is not None})
    parts = [f"{lanes.end_s:.2f} s", counted(len(lanes.strikes), "fault"), counted(recoveries, "recovery")]
    parts.append(counted(outcomes["commit"], "committed step"))
    for outcome, word in (("adopted", "adopted state"), ("rollback", "rollback")):
        parts += [counted(outcomes[outcome], word)] if outcomes[outcome] else []
    return ", ".join(parts)


def counted(number: int, word: str) -> str:
    """`1 fault`, `2 faults`, `2 recoveries`."""
    if number == 1:
        return f"1 {word}"
    return f"{number} {word[:-1]}ies" if word.endswith("y") else f"{number} {word}s"


def _stripes(lanes: Lanes, place: Place) -> Iterator[Node]:
    for number, name in enumerate(lanes.names):
        if number % 2 == 0:
            yield svg.rect("0", place.top[name], "100%", place.height(name), "stripe")


def _axis(place: Place) -> Iterator[Node]:
    step = nice(place.whole / 8)
    # Zoomed in, five places for each that the whole run has room for.
    for number in range(math.floor(place.whole / step * FINE) + 1):
        at = number * step / FINE
        fine = number % FINE != 0
        if not fine:
            yield svg.line(place.x(at), STRIP, place.bottom, "grid")
        # The last label would be cut off at the edge.
        if at < place.whole * 0.97:
            anchor = "start" if number == 0 else "middle"
            style = "tick fine" if fine else "tick"
            yield svg.text(place.x(at), place.bottom + AXIS - 5, f"{at:.6g}", style, anchor)


def nice(rough: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    power = 10 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    return next((factor * power for factor in (1, 2, 5) if factor * power >= rough), 10 * power)


def _shades(strikes: Sequence[Strike], place: Place) -> Iterator[Node]:
    for strike in strikes:
        x = place.x(strike.start_s)
        for lane in strike.lanes:
            if strike.end_s is not None:
                width = place.width(strike.start_s, strike.end_s)
                title = f"{strike.fault} {strike.name}: {seconds(strike.end_s - strike.start_s)}"
                yield svg.rect(x, place.top[lane], width, place.height(lane), "fault", title)
        yield svg.line(x, STRIP - 2, place.bottom, "struck")


def _spans(lanes: Lanes, place: Place, anchor: Callable[[int], str | None]) -> Iterator[Node]:
    for span in lanes.spans:
        x, width, y = place.x(span.start_s), place.width(span.start_s, span.end_s), place.top[span.lane]
        if span.number is None:
            yield svg.rect(x, y + LANE - 5, width, 3, f"held {span.kind}", span.title)
            continue
        bar = svg.rect(x, y + 4, width, 14, f"phase {span.kind}", span.title)
        words = svg.label(x, y + 19, width, 13, span.kind)
        said = f"recovery {span.number + 1}, {span.title}"
        target = anchor(span.number)
        yield from (bar, words) if target is None else (svg.link(target, said, bar, words, in_order=False),)


def _ticks(lanes: Lanes, place: Place) -> Iterator[Node]:
    by_lane: dict[tuple[str, str], list[Step]] = {}
    for step in lanes.steps:
        by_lane.setdefault((step.lane, step.outcome), []).append(step)
    for (lane, outcome), steps in by_lane.items():
        top = place.top[lane]
        places = thinned([svg.units(step.end_s, place.whole) for step in steps])
        title = f"{lane}: {_listed(outcome, steps)}"
        if len(places) < len(steps):
            title += f", drawn as {len(places)} ticks"
        if outcome == "rollback":
            yield from (
                svg.shape(svg.percent(at, svg.UNITS), top + 9, "M-3-3 3 3M3-3-3 3", "rollback", title)
                for at in places
            )
        else:
            yield svg.stretched(top + 3, 14, svg.ticks(places, 14, outcome, title))


def _listed(outcome: str, steps: Sequence[Step]) -> str:
    first, last = min(step.step for step in steps), max(step.step for step in steps)
    which = f"step {first}" if first == last else f"steps {first} to {last}"
    words = {"commit": "committed", "adopted": "adopted from a peer", "rollback": "rolled back"}
    return f"{words[outcome]} {counted(len(steps), 'time')}, {which}"


def thinned(places: Sequence[int]) -> list[int]:
    """Without those that lie closer to the one before than a lane can show."""
    if len(places) <= MOST_TICKS:
        return sorted(places)
    kept: list[int] = []
    for at in sorted(places):
        if not kept or at - kept[-1] >= svg.UNITS / MOST_TICKS:
            kept.append(at)
    return kept


def _marks(marks: Sequence[Mark], place: Place, anchor: Callable[[int], str | None]) -> Iterator[Node]:
    for mark in marks:
        x, top = place.x(mark.at_s), place.top[mark.lane]
        if mark.kind == "generation":
            drawn = Node(
                "g",
                svg.line(x, STRIP, place.bottom, "generation"),
                Node("title", text=mark.title),
            )
        else:
            kind = mark.kind if mark.kind in SHAPES else "other"
            drawn = svg.shape(x, top + 10, SHAPES[kind], f"mark {kind.replace('.', '-')}", mark.title)
        target = anchor(mark.line)
        yield (
            drawn if target is None else svg.link(target, f"{mark.lane}: {mark.title}", drawn, in_order=False)
        )


def _names(strikes: Sequence[Strike], place: Place, anchor: Callable[[str], str | None]) -> Iterator[Node]:
    for number, strike in enumerate(strikes, start=1):
        next_s = strikes[number].start_s if number < len(strikes) else math.inf
        x, said = place.x(strike.start_s), f"{strike.fault} {strike.name}"
        parts = [svg.shape(x, STRIP - 5, "M-4-5h8l-4 7z", "flag", said)]
        if len(strikes) <= MOST_NAMES:
            # To the left of its flag where there is no room to the right.
            close = next_s - strike.start_s < place.whole * 0.04
            left = close or strike.start_s > place.whole * 0.85
            name = Node("text", text=strike.fault, x=-6 if left else 6, y=12, class_="name")
            name.element.set("text-anchor", "end" if left else "start")
            parts.append(Node("svg", name, x=x, y=0, overflow="visible", width=1, height=STRIP))
        target = anchor(strike.fault)
        yield from parts if target is None else [svg.link(target, said, *parts)]


def phase_bar(phases: Mapping[str, float], longest_s: float) -> Node:
    """The phases of one recovery one after the other, on the scale of the longest."""
    node = Node("svg", width="100%", height=14, aria_hidden="true")
    at = 0.0
    for phase, lasted in phases.items():
        if lasted > 0:
            x, width = svg.percent(at, longest_s), svg.percent(lasted, longest_s)
            node.add(svg.rect(x, 1, width, 12, f"phase {phase}", f"{phase}: {seconds(lasted)}"))
        at += lasted
    return node
