"""`node.return`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from injectors import signals
from injectors.cluster import undoing
from injectors.fault import Channel, Evidence, Fault, Mechanism, Place
from injectors.process.ending import PIDFD

BRING_BACK_S = 60.0
# A launcher that is forked from a warm process enters its node's namespaces itself, a moment later.
THERE_S = 10.0
ELSEWHERE = "its launcher is not in its network"
ENGINE = Mechanism(
    name="the engine, which made the node",
    fidelity="real: a node of the same name and address, and its launcher started again",
    probe=PIDFD.probe,
)


@dataclass(frozen=True, kw_only=True)
class NodeReturn(Fault):
    """Bring a node back that was killed, preempted or cut off, and start its launcher again.

    Proof: its launcher runs, in the node's own network namespace, in which its holder lives.
    Undo: none; it is itself the way back from other faults of nodes, which it ends first.
    """

    id: ClassVar[str] = "node.return"
    aims_at: ClassVar[Literal["process", "nodes"]] = "nodes"
    mechanisms: ClassVar[tuple[Mechanism, ...]] = (ENGINE,)
    privileges: ClassVar[tuple[str, ...]] = ("netns: none; docker: the daemon's socket",)
    stands_for: ClassVar[str] = "a machine that was rebooted or replaced, and that its scheduler starts again"
    does_not_certify: ClassVar[str] = "a node that comes back under another address"
    expects: ClassVar[str | None] = None
    needs_run: ClassVar[str] = "the command that starts a node's launcher, which is not the tool's here"

    def inject(self, victim: Place, channel: Channel | None) -> Evidence:
        if channel is None:
            return Evidence("only the engine can start a node's launcher, and no engine is there", False)
        return channel.act(BRING_BACK_S)

    def verify(self, victim: Place, fired: Evidence | None = None) -> Evidence:
        back: list[dict[str, Any]] = list(fired.data.get("back", ())) if fired is not None else []
        if not back:
            return Evidence("no node was brought back", False)
        limit = time.monotonic() + THERE_S
        missing = [f"node{one['node']}: {why}" for one in back if (why := _wait_there(one, limit))]
        names = ", ".join(f"node{one['node']} (launcher {one['launcher'][0]})" for one in back)
        if missing:
            return Evidence("; ".join(missing), False, data={"back": back})
        return Evidence(f"{names} runs in its own network", True, data={"back": back})


def _wait_there(one: dict[str, Any], limit: float) -> str:
    while (why := _missing(one)) == ELSEWHERE and time.monotonic() < limit:
        time.sleep(0.01)
    return why


def _missing(one: dict[str, Any]) -> str:
    """What is not as it should be of a node that was brought back; empty if all is."""
    holder, launcher = one["holder"], one["launcher"]
    if not signals.is_alive(holder[0], holder[1]):
        return "it has no process that keeps it"
    if not signals.is_alive(launcher[0], launcher[1]):
        return "its launcher has ended"
    if launcher[0] not in undoing.sharing_network(holder[0]):
        return ELSEWHERE
    return ""
