"""`node.isolate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from injectors.fault import Mechanism, Place
from injectors.net import base, shapes
from injectors.net.partition import NetPartition
from injectors.net.shapes import Pair
from injectors.net.ways import Way


@dataclass(frozen=True, kw_only=True)
class NodeIsolate(base.CutFault):
    """Cut a node off from all others: it runs on, hears no one and is heard by no one.

    Proof: a datagram and a new connection between each two nodes, before and during; counters of what was
    dropped.
    Undo: the rules are deleted; repeatable, harmless if the node is gone.
    """

    id: ClassVar[str] = "node.isolate"
    ladder: ClassVar[tuple[Way, ...]] = NetPartition.ladder
    mechanisms: ClassVar[tuple[Mechanism, ...]] = NetPartition.mechanisms
    stands_for: ClassVar[str] = (
        "a dead network card or cable, a switch port that is shut, a lost overlay network"
    )
    does_not_certify: ClassVar[str] = "a card that the node's own kernel knows to be down (see net.link_down)"
    expects: ClassVar[str | None] = "node_lost"

    mechanism: str = base.any_mechanism(NetPartition.ladder)

    def affected(self, place: Place) -> frozenset[Pair]:
        return shapes.partition("isolate", [node.index for node in place.nodes], place.aimed, "")
