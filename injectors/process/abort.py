"""`process.abort`."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import ClassVar

from injectors.process.ending import SignalFault


@dataclass(frozen=True, kw_only=True)
class ProcessAbort(SignalFault):
    """End one rank as a failed C++ check would: SIGABRT.

    Proof: the kernel reports the process ended (a core file may be written first, which takes time).
    Undo: none.
    """

    id: ClassVar[str] = "process.abort"
    stands_for: ClassVar[str] = (
        "a watchdog that aborts the process (NCCL's does), std::terminate, a failed assertion in native code"
    )
    does_not_certify: ClassVar[str] = (
        "an abort in the middle of a native call: the agent stands between two calls when the signal comes"
    )
    expects: ClassVar[str | None] = "crash"

    number: ClassVar[signal.Signals] = signal.SIGABRT
