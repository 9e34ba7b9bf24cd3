"""`node.preempt`."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import ClassVar, Literal

from injectors import signals
from injectors.fault import Channel, Evidence, Fault, Mechanism, Place, UndoRecord, parameter
from injectors.node import ending

SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2")


@dataclass(frozen=True, kw_only=True)
class NodePreempt(Fault):
    """Take a node away with notice: its launcher gets a signal, and after a grace the whole node is gone.

    Proof: the kernel sees no process of it after the grace, and whether the launcher ended within it.
    Undo: none; `node.return` brings the node back.
    """

    id: ClassVar[str] = "node.preempt"
    aims_at: ClassVar[Literal["process", "nodes"]] = "nodes"
    proof_comes_later: ClassVar[bool] = True
    mechanisms: ClassVar[tuple[Mechanism, ...]] = ending.MECHANISMS
    privileges: ClassVar[tuple[str, ...]] = ("netns: none; docker: the daemon's socket",)
    stands_for: ClassVar[str] = (
        "a scheduler that preempts a job's node, a spot instance that is called back, host maintenance"
    )
    does_not_certify: ClassVar[str] = "notice by another way, such as a metadata service or an annotation"
    expects: ClassVar[str | None] = "node_lost"

    signal: str = parameter(
        "the notice that the node's launcher gets", kind="str", default="SIGTERM", choices=SIGNALS
    )
    grace_s: float = parameter(
        "from the notice to the end of the node", default=2.0, unit="s", minimum=0.0, maximum=600.0
    )

    def undo_record(self, victim: Place) -> UndoRecord | None:
        ending.aimed(victim)
        return None

    def inject(self, victim: Place, channel: Channel | None) -> Evidence:
        told = [
            node
            for node in ending.aimed(victim)
            if node.launcher
            and signals.send(node.launcher, node.launcher_ticks, getattr(signal, self.signal))
        ]
        if not told:
            return Evidence("no node that is meant has a launcher that could be told", False)
        names = ", ".join(f"the launcher of {node.name} (pid {node.launcher})" for node in told)
        return Evidence(
            f"{names} got {self.signal}, {self.grace_s:g} s before the end",
            True,
            data={"signal": self.signal, "grace_s": self.grace_s},
        )

    def follow(self, victim: Place, fired: Evidence) -> Evidence:
        left = []
        for node in ending.aimed(victim):
            # Whoever is done before its time loses the node at once: the scheduler has what it wanted.
            in_time = signals.wait_gone(node.launcher, node.launcher_ticks, self.grace_s)
            left.append(f"{node.name} {'ended by itself' if in_time else 'used up its grace'}")
        ended = [found for node in ending.aimed(victim) if (found := ending.end(node)) is not None]
        return Evidence(", ".join(left), bool(ended), data={**fired.data, "ended": ended, "left": left})

    def verify(self, victim: Place, fired: Evidence | None = None) -> Evidence:
        return ending.gone(list(fired.data.get("ended", ())) if fired is not None else [])
