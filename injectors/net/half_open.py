"""`net.half_open`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from injectors.fault import Mechanism, parameter
from injectors.net import base, connections, ladders
from injectors.net.established import ConnectionFault, elements, of_prober
from injectors.net.scenes import Scene
from injectors.net.shapes import Pair
from injectors.net.ways import Way
from injectors.net.ways_kernel import NftWay


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
        mine = of_prober(scene)
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
class NetHalfOpen(ConnectionFault):
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
    # A byte between two namespaces of one machine takes less than a millisecond.
    heard_s: ClassVar[float] = 0.5
    struck: ClassVar[frozenset[str]] = frozenset({"silent"})
    unstruck: ClassVar[str] = "not silent"

    new: str = parameter(
        "new connections: refuse, as by a machine that came back without the job; drop; or accept",
        kind="str",
        default="refuse",
        choices=("refuse", "drop", "accept"),
    )
    mechanism: str = base.any_mechanism(_LADDER)

    def silent(self, view: base.View) -> list[Pair]:
        return view.pairs if self.new == "drop" else []

    def new_ones(self, view: base.View, reach: Mapping[str, Any]) -> base.Judgement:
        wanted = {"refuse": "ECONNREFUSED", "drop": "silent", "accept": "ok"}[self.new]
        other = [f"{a}>{b} {seen}" for a, b in view.pairs if (seen := reach[f"{a}>{b}"]["tcp"]) != wanted]
        if other:
            return False, f"new connections were not {wanted}: {', '.join(other)}"
        return True, f"are silent; new ones find {wanted}"
