"""`node.kill`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from injectors.fault import Channel, Evidence, Fault, Mechanism, Place, UndoRecord
from injectors.node import ending


@dataclass(frozen=True, kw_only=True)
class NodeKill(Fault):
    """Unplug a node: its network, its supervisor and its ranks are gone at once, without a word to anyone.

    Proof: the kernel sees no process of it, and none in its network namespace.
    Undo: none; `node.return` brings the node back.
    """

    id: ClassVar[str] = "node.kill"
    aims_at: ClassVar[Literal["process", "nodes"]] = "nodes"
    mechanisms: ClassVar[tuple[Mechanism, ...]] = ending.MECHANISMS
    privileges: ClassVar[tuple[str, ...]] = ("netns: none; docker: the daemon's socket",)
    stands_for: ClassVar[str] = (
        "a machine that loses power, a kernel panic, a spot instance that is just gone"
    )
    does_not_certify: ClassVar[str] = (
        "a host whose connections stay half-open for long: here the kernel lives on, and drops at the bridge "
        "what is sent to the node"
    )
    expects: ClassVar[str | None] = "node_lost"

    def undo_record(self, victim: Place) -> UndoRecord | None:
        ending.aimed(victim)
        return None

    def inject(self, victim: Place, channel: Channel | None) -> Evidence:
        ended = [found for node in ending.aimed(victim) if (found := ending.end(node)) is not None]
        if not ended:
            return Evidence("no node that is meant was there any more", False)
        names = ", ".join(f"node{one['node']}" for one in ended)
        heard = "; ".join(one["heard"] for one in ended if one["heard"])
        how = f", but its peers may hear it: {heard}" if heard else " without a word to its peers"
        return Evidence(f"{names} unplugged{how}", True, data={"ended": ended})

    def verify(self, victim: Place, fired: Evidence | None = None) -> Evidence:
        return ending.gone(list(fired.data["ended"]) if fired is not None else [])
