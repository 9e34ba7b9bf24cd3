"""`net.link_down`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from injectors.fault import Mechanism, Place
from injectors.net import base, ladders, shapes
from injectors.net.relay import Treatment
from injectors.net.shapes import Pair
from injectors.net.ways import Way
from injectors.net.ways_kernel import LinkWay, NftWay, dropping
from injectors.net.ways_outside import DockerWay, RelayWay

_LADDER: tuple[Way, ...] = (
    LinkWay(ladders.IP_LINK),
    DockerWay(ladders.DOCKER_NETWORK),
    NftWay(ladders.nft("packets vanish, but the node's own kernel sees its link up"), dropping),
    RelayWay(
        ladders.packet_relay("packets vanish, but the node's own kernel sees its link up"),
        lambda fault: Treatment(loss=1.0),
    ),
)


@dataclass(frozen=True, kw_only=True)
class NetLinkDown(base.CutFault):
    """The network interface of the aimed nodes goes down.

    Proof: a datagram and a new connection between each two nodes, before and during; what the kernel
    says of the interface.
    Undo: the interface is set up again and gets back its routes; repeatable, harmless if the node is gone.
    """

    id: ClassVar[str] = "net.link_down"
    ladder: ClassVar[tuple[Way, ...]] = _LADDER
    mechanisms: ClassVar[tuple[Mechanism, ...]] = base.of(_LADDER)
    stands_for: ClassVar[str] = "a pulled cable, a dead port, a driver that reset its card"
    does_not_certify: ClassVar[str] = "a link that flaps, nor one of several links of a bond"
    expects: ClassVar[str | None] = "node_lost"

    mechanism: str = base.any_mechanism(_LADDER)

    def affected(self, place: Place) -> frozenset[Pair]:
        # Two aimed nodes do not reach each other either.
        everyone = [node.index for node in place.nodes]
        return shapes.both((a, b) for a in place.aimed for b in everyone if a != b)
