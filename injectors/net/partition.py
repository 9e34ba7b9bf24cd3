"""`net.partition`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from injectors.fault import FaultError, Mechanism, Place, parameter
from injectors.net import base, ladders, shapes
from injectors.net.relay import Treatment
from injectors.net.shapes import Pair
from injectors.net.ways import Way
from injectors.net.ways_kernel import NftWay, dropping
from injectors.net.ways_outside import DockerWay, RelayWay

_LADDER: tuple[Way, ...] = (
    NftWay(ladders.nft(), dropping),
    RelayWay(ladders.packet_relay("dropped silently where they are sent"), lambda fault: Treatment(loss=1.0)),
    DockerWay(ladders.DOCKER_NETWORK),
)


@dataclass(frozen=True, kw_only=True)
class NetPartition(base.CutFault):
    """Cut the network into parts: packets between them vanish, in both directions, without an error.

    Proof: a datagram and a new connection between each two nodes, before and during; counters of what was
    dropped, read in the nodes that it was meant for.
    Undo: the rules are deleted; repeatable, harmless if the nodes are gone.
    """

    id: ClassVar[str] = "net.partition"
    ladder: ClassVar[tuple[Way, ...]] = _LADDER
    mechanisms: ClassVar[tuple[Mechanism, ...]] = base.of(_LADDER)
    stands_for: ClassVar[str] = "a failed switch or uplink, a wrong firewall rule, a routing change"
    does_not_certify: ClassVar[str] = (
        "a partition that the node's own kernel notices (see net.link_down), nor one that comes and goes"
    )
    expects: ClassVar[str | None] = "node_lost"

    shape: str = parameter(
        "isolate: the aimed nodes from the rest; majority or minority: the aimed nodes are in that part; "
        "ring: each reaches its two neighbours; bridge: two halves, the aimed node reaches both; pairs",
        kind="str",
        default="isolate",
        choices=shapes.SHAPES,
    )
    pairs: str = parameter("shape `pairs`: which are cut, as 0-1,0-2", kind="str", default="")
    mechanism: str = base.any_mechanism(_LADDER)

    def affected(self, place: Place) -> frozenset[Pair]:
        if self.pairs and self.shape != "pairs":
            raise FaultError(f"net.partition: pairs is for shape pairs, the shape is {self.shape}")
        indices = [node.index for node in place.nodes]
        return shapes.partition(self.shape, indices, place.aimed, self.pairs)
