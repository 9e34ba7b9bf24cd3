"""`process.term`."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import ClassVar

from injectors import signals
from injectors.fault import Evidence, Victim, parameter
from injectors.process.ending import SignalFault, verify_gone


@dataclass(frozen=True, kw_only=True)
class ProcessTerm(SignalFault):
    """Ask one rank to end: SIGTERM, which it may handle or ignore.

    Proof: the process ended within `grace_s`, or the kernel says that it has a handler and took the signal.
    Undo: none.
    """

    id: ClassVar[str] = "process.term"
    stands_for: ClassVar[str] = (
        "a scheduler that takes the node away, the notice before a preemption, a drain"
    )
    does_not_certify: ClassVar[str] = (
        "that the whole job leaves in order: one rank is asked, the schedulers' notice reaches all of them"
    )
    expects: ClassVar[str | None] = "crash"
    number: ClassVar[signal.Signals] = signal.SIGTERM

    grace_s: float = parameter(
        "how long the process may take to end", default=5.0, unit="s", minimum=0.0, maximum=600.0
    )

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        gone = verify_gone(victim, self.grace_s)
        if gone.proven:
            return gone
        handled = signals.mask_has(victim.pid, "SigCgt", self.number)
        pending = signals.mask_has(victim.pid, "ShdPnd", self.number)
        what = f"pid {victim.pid} lives; it has {'a' if handled else 'no'} handler for SIGTERM"
        return Evidence(
            what, handled is True and pending is False, data={"handled": handled, "pending": pending}
        )
