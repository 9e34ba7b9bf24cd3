"""`process.gil_lock`."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import ClassVar

from injectors import signals
from injectors.fault import Evidence, InsideFault, Victim, parameter


@dataclass(frozen=True, kw_only=True)
class ProcessGilLock(InsideFault):
    """Hold one rank's Python lock in a single C call: no Python thread of it runs, heartbeats included.

    Proof: the kernel sees the acting thread asleep in the C call; afterwards the agent says how long it was.
    That the call keeps the lock follows from how it is made (ctypes.PyDLL); from outside it can not be seen.
    Undo: none before the time is up, for there is nothing in the process that could hear it.
    """

    id: ClassVar[str] = "process.gil_lock"
    stands_for: ClassVar[str] = (
        "pickling a large object, a regular expression that explodes, an extension that keeps the lock"
    )
    does_not_certify: ClassVar[str] = "native threads: those of gloo and NCCL go on"
    expects: ClassVar[str | None] = "hang"

    duration_s: float = parameter("how long", default=2.0, unit="s", minimum=0.001, maximum=600.0)

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        if fired is None or not fired.proven:
            return Evidence("the agent did not report the call", False, "agent")
        if os.uname().machine not in _NANOSLEEP:
            return fired
        limit = time.monotonic() + min(0.5, self.duration_s)
        while time.monotonic() < limit:
            for thread, number, _ in signals.syscalls(victim.pid):
                if number in _NANOSLEEP[os.uname().machine]:
                    return Evidence(f"thread {thread} sleeps in the C call", True, data={"thread": thread})
            time.sleep(0.001)
        return Evidence("no thread was seen in the C call", False)


_NANOSLEEP = {"x86_64": (35, 230), "aarch64": (101, 115)}
"""nanosleep and clock_nanosleep, by machine."""
