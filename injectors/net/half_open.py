"""`net.half_open`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from injectors.fault import Mechanism, Place, parameter
from injectors.net import base, connections, ladders, shapes
from injectors.net.connections import Connection
from injectors.net.scenes import Scene
from injectors.net.shapes import Pair
from injectors.net.ways import Way
from injectors.net.ways_kernel import NftWay

# A byte between two namespaces of one machine takes less than a millisecond.
_SILENT_S = 0.5


def elements(seen: list[Connection]) -> str:
    """Connections as elements of an nft set: where from, where to, as their packets arrive here."""
    return ", ".join(f"{there} . {port} . {here} . {own}" for here, own, there, port in sorted(set(seen)))


def _lines(fault: Any, scene: Scene) -> dict[int, list[str]]:
    """Packets of the connections that are there now are dropped where they arrive; new ones as stated."""
    found = {}
    for index, seen in scene.work["connections"].items():
        peers = ", ".join(sorted(scene.node(b)["address"] for a, b in scene.pairs if a == index))
        body = ["  counter old { }", "  counter new { }"]
        if seen:
            body += [
                "  set connections { type ipv4_addr . inet_service . ipv4_addr . inet_service;",
                f"    elements = {{ {elements(seen)} }}",
                "  }",
                "  chain arriving {",
                "    type filter hook prerouting priority -300; policy accept;",
                "    ip saddr . tcp sport . ip daddr . tcp dport @connections counter name old drop",
                "  }",
            ]
        verdict = {"refuse": "reject with tcp reset", "drop": "drop"}.get(fault.new)
        if verdict:
            body += [
                "  chain calls {",
                "    type filter hook input priority -300; policy accept;",
                f"    ip saddr {{ {peers} }} tcp flags & (syn | ack) == syn counter name new {verdict}",
                "  }",
            ]
        found[index] = body
    return found


class _OldConnections(NftWay):
    """Lists the connections first: without any there is nothing to leave half open."""

    def prepare(self, fault: Any, scene: Scene) -> dict[str, Any]:
        assert scene.probe is not None
        own = scene.probe.own()
        mine = set(own) | {(c, d, a, b) for a, b, c, d in own}
        listed = connections.between(scene.nodes, scene.pairs)
        chosen = {
            index: [c for c in seen if c in mine or fault.port in (0, c[1], c[3])]
            for index, seen in listed.items()
        }
        jobs = sum(c not in mine for seen in chosen.values() for c in seen)
        if not jobs:
            scene.nothing = "no connection was established that it could leave half open"
        scene.work["connections"] = chosen
        return {**super().prepare(fault, scene), "connections": jobs // 2}


_LADDER: tuple[Way, ...] = (
    _OldConnections(
        ladders.nft(
            "packets of the connections that were there vanish in both directions, no FIN, no RST",
            "ip saddr . tcp sport . ip daddr . tcp dport { 10.0.0.1 . 1 . 10.0.0.2 . 2 } counter drop",
        ),
        _lines,
    ),
)


@dataclass(frozen=True, kw_only=True)
class NetHalfOpen(base.NetFault):
    """The aimed nodes vanish from every connection without a word: no FIN, no RST, no answer.

    Proof: a connection that was open between each two nodes falls silent at both ends, and new ones find what
    was stated; counters of what was dropped.
    Undo: the rules are deleted, and what the ends send again arrives; repeatable, harmless if the nodes are
    gone.
    """

    id: ClassVar[str] = "net.half_open"
    ladder: ClassVar[tuple[Way, ...]] = _LADDER
    mechanisms: ClassVar[tuple[Mechanism, ...]] = base.of(_LADDER)
    stands_for: ClassVar[str] = "a machine that lost power, a firewall or NAT that forgot its connections"
    does_not_certify: ClassVar[str] = "what happens to datagrams, which still arrive (see net.partition)"
    expects: ClassVar[str | None] = "node_lost"

    new: str = parameter(
        "new connections: refuse, as by a machine that came back without the job; drop; or accept",
        kind="str",
        default="refuse",
        choices=("refuse", "drop", "accept"),
    )
    port: int = parameter(
        "only connections with this port at either end; 0 for all",
        kind="int",
        default=0,
        minimum=0,
        maximum=65535,
    )
    mechanism: str = base.any_mechanism(_LADDER)

    def affected(self, place: Place) -> frozenset[Pair]:
        return shapes.both(shapes.outwards([node.index for node in place.nodes], place.aimed))

    def look(self, view: base.View, stage: Literal["before", "during", "after"]) -> dict[str, Any]:
        if stage == "before":
            view.probe.hold([(a, b) for a, b in view.pairs if a < b])
        if stage == "after":
            return {"reach": view.probe.reach(view.ways)}
        silent = view.pairs if stage == "during" and self.new == "drop" else []
        return {"held": view.probe.held(_SILENT_S), "reach": view.probe.reach(view.ways, silent)}

    def shows(self, view: base.View, before: Mapping[str, Any], during: Mapping[str, Any]) -> base.Judgement:
        was = [name for name, ends in before["held"].items() if set(ends.values()) == {"ok"}]
        if not was:
            return False, "no connection between the nodes could be held open before the fault"
        loud = [
            f"{name} {during['held'][name]}"
            for name in was
            if set(during["held"][name].values()) != {"silent"}
        ]
        if loud:
            return False, f"not silent: {', '.join(loud)}"
        wanted = {"refuse": "ECONNREFUSED", "drop": "silent", "accept": "ok"}[self.new]
        other = [
            f"{a}>{b} {seen}" for a, b in view.pairs if (seen := during["reach"][f"{a}>{b}"]["tcp"]) != wanted
        ]
        if other:
            return False, f"new connections were not {wanted}: {', '.join(other)}"
        return True, f"{len(was)} held connections answered before and are silent; new ones find {wanted}"
