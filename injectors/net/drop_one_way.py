"""`net.drop_one_way`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from injectors.fault import Mechanism, Place, parameter
from injectors.net import base, ladders, shapes
from injectors.net.relay import Treatment
from injectors.net.shapes import Pair
from injectors.net.ways import Way
from injectors.net.ways_kernel import NftWay, dropping
from injectors.net.ways_outside import RelayWay

_LADDER: tuple[Way, ...] = (
    NftWay(ladders.nft(), dropping),
    RelayWay(ladders.packet_relay("dropped silently where they are sent"), lambda fault: Treatment(loss=1.0)),
)


@dataclass(frozen=True, kw_only=True)
class NetDropOneWay(base.CutFault):
    """Packets vanish in one direction only: a node is no longer heard, but hears; or the other way round.

    Proof: a datagram in each direction between each two nodes, before and during: one arrives, the other does
    not; counters of what was dropped.
    Undo: the rules are deleted; repeatable, harmless if the nodes are gone.
    """

    id: ClassVar[str] = "net.drop_one_way"
    ladder: ClassVar[tuple[Way, ...]] = _LADDER
    mechanisms: ClassVar[tuple[Mechanism, ...]] = base.of(_LADDER)
    stands_for: ClassVar[str] = (
        "a dead transmitter of an optical link, an asymmetric route, a half-broken firewall"
    )
    does_not_certify: ClassVar[str] = "a full partition (see net.partition)"
    expects: ClassVar[str | None] = "node_lost"

    direction: str = parameter(
        "out: what the aimed nodes send does not arrive; in: they hear nothing",
        kind="str",
        default="out",
        choices=("out", "in"),
    )
    pairs: str = parameter("instead of the aimed nodes: the ways, as 0>1,2>1", kind="str", default="")
    mechanism: str = base.any_mechanism(_LADDER)

    def affected(self, place: Place) -> frozenset[Pair]:
        indices = [node.index for node in place.nodes]
        if self.pairs:
            return shapes.parse(self.pairs, ">", indices)
        out = shapes.outwards(indices, place.aimed)
        return out if self.direction == "out" else frozenset((b, a) for a, b in out)
