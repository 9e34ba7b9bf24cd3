"""What the faults that keep a rank from a collective share."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

from injectors import signals, undo
from injectors.fault import Evidence, InsideFault, UndoRecord, Victim


@dataclass(frozen=True, kw_only=True)
class HoldingFault(InsideFault):
    """Base of the faults that the agent holds until it is told to let go."""

    has_undo: ClassVar[bool] = True

    def undo_record(self, victim: Victim) -> UndoRecord:
        return UndoRecord(undo.AGENT_RELEASE, victim.pid, victim.start_ticks, victim.fault)

    def verify_undone(self, record: UndoRecord) -> Evidence:
        if not signals.is_alive(record.pid, record.start_ticks):
            return Evidence("the process is gone, and its wait with it", True)
        held = signals.blocked_receives(record.pid)
        return Evidence(f"{len(held)} threads wait on the agent's line", not held, data={"threads": held})


def verify_held(victim: Victim, fired: Evidence | None) -> Evidence:
    """Evidence from the kernel that the thread the agent named is blocked on the agent's line.

    Where /proc/PID/syscall may not be read the processor time that the process used is looked at instead,
    which proves less: that it does nothing, not why.
    """
    if fired is None or not fired.proven or fired.data.get("mode") == "device":
        return fired or Evidence("the agent reported nothing", False, "agent")
    wanted = fired.data.get("fd")
    limit = time.monotonic() + 0.5
    while time.monotonic() < limit:
        for thread, fd in signals.blocked_receives(victim.pid):
            if fd == wanted:
                what = f"thread {thread} is blocked in recvfrom on the agent's line (descriptor {fd})"
                return Evidence(what, True, data={"thread": thread, "fd": fd})
        time.sleep(0.001)
    if signals.syscalls(victim.pid):
        return Evidence("no thread is blocked on the agent's line", False)
    return _idle(victim)


def _idle(victim: Victim) -> Evidence:
    before = signals.cpu_ticks(victim.pid)
    time.sleep(0.05)
    used = (signals.cpu_ticks(victim.pid) or 0) - (before or 0)
    alive = signals.is_alive(victim.pid, victim.start_ticks)
    what = f"alive, {used} ticks of processor time in 50 ms; its system calls may not be read from here"
    return Evidence(what, alive and used <= 1, data={"ticks": used})
