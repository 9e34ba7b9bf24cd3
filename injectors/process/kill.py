"""`process.kill`."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import ClassVar

from injectors.fault import Channel, Evidence, Fault, Victim
from injectors.process.ending import send_signal, verify_gone


@dataclass(frozen=True, kw_only=True)
class ProcessKill(Fault):
    """End one rank at once: SIGKILL, nothing in it runs any more.

    Proof: the kernel reports the process ended.
    Undo: none; what it held is lost, which is the point.
    """

    id: ClassVar[str] = "process.kill"
    stands_for: ClassVar[str] = (
        "a crash of any cause, the kernel's out-of-memory killer, an operator's kill -9, a lost GPU"
    )
    does_not_certify: ClassVar[str] = (
        "loss of the node: the kernel lives on and closes the sockets, so peers see a reset in milliseconds"
    )
    expects: ClassVar[str | None] = "crash"

    def inject(self, victim: Victim, channel: Channel | None) -> Evidence:
        return send_signal(victim, signal.SIGKILL)

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        return verify_gone(victim, timeout_s=5.0)
