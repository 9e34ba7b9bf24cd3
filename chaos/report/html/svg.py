"""Drawings as text. Pure.

Rules kept here:

- Horizontal places are percent, so that a drawing is as wide as the page lets it be, and zooming is a matter
  of its width; text is never stretched.
- Every text and attribute goes through the XML writer: nothing that a job said can become markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

from markupsafe import Markup

# What paths are counted in: fine enough for the largest zoom.
UNITS = 1_000_000


class Node:
    """One element. Children are added in the order in which they are painted."""

    def __init__(self, tag: str, *children: Node, text: str = "", **attributes: object) -> None:
        # `class_` and `stroke_width` are Python's spelling of `class` and `stroke-width`.
        names = {name: name.rstrip("_").replace("_", "-") for name in attributes}
        known = {names[name]: str(value) for name, value in attributes.items() if value is not None}
        self.element = ElementTree.Element(tag, known)
        self.element.text = clean(text) or None
        self.add(*children)

    def add(self, *children: Node) -> Node:
        """Append children; returns this node."""
        self.element.extend(child.element for child in children)
        return self

    def __html__(self) -> str:
        return ElementTree.tostring(self.element, encoding="unicode", short_empty_elements=True)


def drawing(height: int, *children: Node, label: str, class_: str = "") -> Markup:
    """A finished drawing, as wide as its place. `label` is what a screen reader says of it."""
    node = Node(
        "svg",
        *children,
        class_=class_ or None,
        width="100%",
        height=height,
        role="group",
        aria_label=clean(label),
    )
    return Markup(node.__html__())


def clean(text: str) -> str:
    """Without the control characters that no markup may hold."""
    return "".join(char for char in text if char >= " " or char in "\n\t")


def percent(part: float, whole: float) -> str:
    """A place on the way from left to right."""
    share = part / whole * 100 if whole > 0 else 0.0
    return f"{min(100.0, max(0.0, share)):.6g}%"


def units(part: float, whole: float) -> int:
    """The same for a path."""
    return round(min(1.0, max(0.0, part / whole)) * UNITS) if whole > 0 else 0


def rect(x: str, y: float, width: str, height: float, class_: str, title: str = "") -> Node:
    """A bar; `x` and `width` are percent."""
    node = Node("rect", x=x, y=y, width=width, height=height, class_=class_)
    return node.add(Node("title", text=title)) if title else node


def line(x: str, top: float, bottom: float, class_: str) -> Node:
    """A vertical line."""
    return Node("line", x1=x, x2=x, y1=top, y2=bottom, class_=class_)


def text(x: str, y: float, said: str, class_: str, anchor: str | None = None) -> Node:
    """A line of text; `anchor`: start, middle or end."""
    return Node("text", text=said, x=x, y=y, class_=class_, text_anchor=anchor)


def label(x: str, y: float, width: str, height: float, said: str) -> Node:
    """Text that is shown as far as its bar is wide."""
    inner = Node("text", text=said, x=2, y=height - 2, class_="in")
    return Node("svg", inner, x=x, y=y, width=width, height=height, aria_hidden="true")


def shape(x: str, y: float, path: str, class_: str, title: str) -> Node:
    """A mark of fixed size, drawn around (0, 0)."""
    return Node(
        "svg",
        Node("path", Node("title", text=title), d=path, class_=class_),
        x=x,
        y=y,
        overflow="visible",
        width=1,
        height=1,
    )


def link(target: str, said: str, *children: Node, in_order: bool = True) -> Node:
    """A link. One that is not `in_order` can be clicked, and is passed over by the tab key."""
    tab = None if in_order else "-1"
    return Node("a", *children, href=f"#{target}", aria_label=clean(said), tabindex=tab)


def stretched(y: float, height: float, *paths: Node) -> Node:
    """A stage for paths: 0 to `UNITS` from left to right, pixels from top to bottom."""
    return Node(
        "svg",
        *paths,
        x=0,
        y=y,
        width="100%",
        height=height,
        viewBox=f"0 0 {UNITS} {height:g}",
        preserveAspectRatio="none",
    )


def ticks(places: Iterable[int], height: float, class_: str, title: str) -> Node:
    """Many vertical strokes as one path, for `stretched`."""
    path = "".join(f"M{place} 0v{height:g}" for place in places)
    return Node("path", Node("title", text=title), d=path, class_=class_)


def polyline(points: Sequence[tuple[int, float]], class_: str) -> Node:
    """A curve through points in units and pixels, for `stretched`."""
    return Node("path", d="M" + "L".join(f"{x} {y:.1f}" for x, y in points), class_=class_)
