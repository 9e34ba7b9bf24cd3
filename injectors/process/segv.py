"""`process.segv`."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import ClassVar

from injectors.process.ending import SignalFault


@dataclass(frozen=True, kw_only=True)
class ProcessSegv(SignalFault):
    """End one rank as a wild pointer would: SIGSEGV, with the fault handlers that the process has.

    Proof: the kernel reports the process ended (a core file may be written first, which takes time).
    Undo: none.
    """

    id: ClassVar[str] = "process.segv"
    stands_for: ClassVar[str] = (
        "a bug in a native extension, in the driver's user library or in the collective library"
    )
    does_not_certify: ClassVar[str] = (
        "memory that was damaged before the crash: the signal comes from outside and damages nothing"
    )
    expects: ClassVar[str | None] = "crash"

    number: ClassVar[signal.Signals] = signal.SIGSEGV
