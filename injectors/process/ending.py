"""What the faults that end a process by a signal share."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import ClassVar

from injectors import signals
from injectors.fault import Channel, Evidence, Fault, Mechanism, Victim


def _pidfd_missing() -> str | None:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        return f"pidfd_open: {error.strerror}; it needs Linux 5.3, and a container that allows it"
    return None


PIDFD = Mechanism(
    name="signal by pidfd",
    fidelity="the real signal, from the kernel, to exactly this process",
    probe=_pidfd_missing,
)


@dataclass(frozen=True, kw_only=True)
class SignalFault(Fault):
    """Base of the faults that send one signal which ends the process."""

    mechanisms: ClassVar[tuple[Mechanism, ...]] = (PIDFD,)
    number: ClassVar[signal.Signals]

    def inject(self, victim: Victim, channel: Channel | None) -> Evidence:
        return send_signal(victim, self.number)

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        return verify_gone(victim, timeout_s=5.0)


def send_signal(victim: Victim, number: signal.Signals) -> Evidence:
    """Send a signal to exactly the victim."""
    sent = signals.send(victim.pid, victim.start_ticks, number)
    what = f"{number.name} sent to pid {victim.pid}" if sent else f"pid {victim.pid} was already gone"
    return Evidence(what, sent, data={"signal": number.name, "pid": victim.pid})


def verify_gone(victim: Victim, timeout_s: float) -> Evidence:
    """Evidence from the kernel that the victim has ended; a zombie has."""
    gone = signals.wait_gone(victim.pid, victim.start_ticks, timeout_s)
    seen = signals.state(victim.pid) if signals.start_ticks(victim.pid) == victim.start_ticks else None
    end = "has ended" if gone else "is still there"
    what = f"the kernel says that pid {victim.pid} {end} (state {seen or 'gone'})"
    return Evidence(what, gone, data={"state": seen or "gone", "waited_s": timeout_s})
