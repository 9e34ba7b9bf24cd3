"""What the faults of established connections share: which they are, and that the prober holds some open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from injectors.fault import Place, parameter
from injectors.net import base, shapes
from injectors.net.connections import Connection
from injectors.net.scenes import Scene
from injectors.net.shapes import Pair


def elements(seen: list[Connection]) -> str:
    """Connections as elements of an nft set: where from, where to, as their packets arrive here."""
    return ", ".join(f"{there} . {port} . {here} . {own}" for here, own, there, port in sorted(set(seen)))


def of_prober(scene: Scene) -> set[Connection]:
    """The prober's own connections, as each of their ends sees them."""
    assert scene.probe is not None
    own = scene.probe.own()
    return set(own) | {(c, d, a, b) for a, b, c, d in own}


@dataclass(frozen=True, kw_only=True)
class ConnectionFault(base.NetFault):
    """Base of the faults that strike every connection between the aimed nodes and the others.

    Proof: connections that the prober holds open are struck as well, and new ones find what was stated.
    """

    heard_s: ClassVar[float]
    """How long the prober waits at an end that it holds."""
    struck: ClassVar[frozenset[str]]
    """What an end of a connection that was struck says."""
    unstruck: ClassVar[str]
    """What a connection is called that was not."""

    port: int = parameter(
        "only connections with this port at either end; 0 for all",
        kind="int",
        default=0,
        minimum=0,
        maximum=65535,
    )

    def silent(self, view: base.View) -> list[Pair]:
        """The ways on which a new connection is expected to find no answer."""
        return []

    def new_ones(self, view: base.View, reach: Mapping[str, Any]) -> base.Judgement:
        """Whether new connections found what was stated, and what to say of it."""
        raise NotImplementedError

    def affected(self, place: Place) -> frozenset[Pair]:
        return shapes.both(shapes.outwards([node.index for node in place.nodes], place.aimed))

    def look(self, view: base.View, stage: Literal["before", "during", "after"]) -> dict[str, Any]:
        if stage == "before":
            view.probe.hold([(a, b) for a, b in view.pairs if a < b])
        if stage == "after":
            return {"reach": view.probe.reach(view.ways)}
        silent = self.silent(view) if stage == "during" else []
        return {"held": view.probe.held(self.heard_s), "reach": view.probe.reach(view.ways, silent)}

    def shows(self, view: base.View, before: Mapping[str, Any], during: Mapping[str, Any]) -> base.Judgement:
        was = [name for name, ends in before["held"].items() if set(ends.values()) == {"ok"}]
        if not was:
            return False, "no connection between the nodes could be held open before the fault"
        spared = [
            f"{name} {during['held'][name]}"
            for name in was
            if not (said := set(during["held"][name].values())) or not said <= self.struck
        ]
        if spared:
            return False, f"{self.unstruck}: {', '.join(spared)}"
        proven, what = self.new_ones(view, during["reach"])
        return proven, f"{len(was)} held connections answered before and {what}" if proven else what
