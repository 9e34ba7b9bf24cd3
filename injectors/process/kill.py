"""`process.kill`."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import ClassVar

from injectors.process.ending import SignalFault


@dataclass(frozen=True, kw_only=True)
class ProcessKill(SignalFault):
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

    number: ClassVar[signal.Signals] = signal.SIGKILL
