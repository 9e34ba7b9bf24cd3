"""`process.stop`."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import ClassVar

from injectors import signals, undo
from injectors.fault import Channel, Evidence, Fault, Mechanism, UndoRecord, Victim, duration
from injectors.process.ending import PIDFD, send_signal


@dataclass(frozen=True, kw_only=True)
class ProcessStop(Fault):
    """Freeze one rank: its sockets stay open, nothing in it answers.

    Proof: the kernel reports process state T.
    Undo: SIGCONT; repeatable, harmless if the process is gone.
    """

    id: ClassVar[str] = "process.stop"
    has_undo: ClassVar[bool] = True
    mechanisms: ClassVar[tuple[Mechanism, ...]] = (PIDFD,)
    stands_for: ClassVar[str] = (
        "a node stuck in I/O or swapping, a paused virtual machine, a debugger left attached, a hung driver"
    )
    does_not_certify: ClassVar[str] = (
        "a rank that is alive and loops without progress (see collective.hang), nor a frozen kernel, whose "
        "sockets stop acknowledging too"
    )
    expects: ClassVar[str | None] = "stopped"

    duration_s: float | None = duration("how long it stays frozen; without it, until the scenario heals")

    def undo_record(self, victim: Victim) -> UndoRecord:
        return UndoRecord(undo.SIGNAL_CONT, victim.pid, victim.start_ticks, victim.fault)

    def inject(self, victim: Victim, channel: Channel | None) -> Evidence:
        sent = send_signal(victim, signal.SIGSTOP)
        if not sent.proven:
            return sent
        # Look at once: a runtime that fences a frozen rank leaves no more than a millisecond to see it.
        seen = signals.wait_state(victim.pid, "TtZX", 2.0)
        return Evidence(
            f"{sent.what}; then in state {seen or 'gone'}", True, data={**sent.data, "state": seen}
        )

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        if fired is not None and fired.data.get("state") == "T":
            return Evidence(f"pid {victim.pid} was in state T right after the signal", True, data=fired.data)
        seen = signals.wait_state(victim.pid, "TtZX", 0.5)
        stopped = seen == "T" and signals.start_ticks(victim.pid) == victim.start_ticks
        return Evidence(f"pid {victim.pid} is in state {seen or 'gone'}", stopped, data={"state": seen})

    def verify_undone(self, record: UndoRecord) -> Evidence:
        if not signals.is_alive(record.pid, record.start_ticks):
            return Evidence("the process is gone, and its stop with it", True)
        seen = signals.state(record.pid)
        return Evidence(f"pid {record.pid} is in state {seen}", seen not in ("T", "t"), data={"state": seen})
