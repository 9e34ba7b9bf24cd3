"""What the inside faults share that last while the job goes on: a thread of the agent holds each of them.

The thread bears a name of ours, which the kernel shows: as long as it is there the fault is in force, and the
thread takes the fault back before it ends. It ends at the engine's word, when its time is up, and when the
tool is gone. Standard library only: the reaper uses it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from injectors import signals, undo
from injectors.agent.lasting import thread_name
from injectors.fault import Evidence, InsideFault, UndoRecord, Victim

RELEASE_S, AGAIN_S = 3.0, 0.1


@dataclass(frozen=True, kw_only=True)
class LastingFault(InsideFault):
    """Base of the inside faults that stay in force while the job goes on."""

    has_undo: ClassVar[bool] = True

    def undo_record(self, victim: Victim) -> UndoRecord:
        kind = f"{self.id.partition('.')[0]}.lasting"
        return UndoRecord(kind, victim.pid, victim.start_ticks, victim.fault)

    def undo(self, record: UndoRecord, release: Callable[[str], bool] | None = None) -> Evidence:
        limit = time.monotonic() + RELEASE_S
        while release is not None and holds(record.pid, record.start_ticks, record.fault):
            # More than once: the engine may not yet have heard which line the thread waits on.
            release(record.fault)
            if _wait_free(record.pid, record.start_ticks, record.fault, AGAIN_S) or time.monotonic() > limit:
                break
        result = undo.carry_out(record.as_dict())
        return Evidence(str(result["detail"]), bool(result["done"]), data=result)

    def verify_undone(self, record: UndoRecord) -> Evidence:
        held = holds(record.pid, record.start_ticks, record.fault)
        state = "is still there" if held else "is not there"
        return Evidence(f"the thread that holds {record.fault} {state} (pid {record.pid})", not held)


def holds(pid: int, ticks: int, fault: str) -> bool:
    """Whether the kernel shows the thread that holds a fault in exactly this process."""
    name = thread_name(fault)
    if not signals.is_alive(pid, ticks):
        return False
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return False
    return any(_name(pid, thread) == name for thread in threads)


def released(record: Mapping[str, Any]) -> tuple[bool, str]:
    """The undo handler: the agent lets go by itself; wait until it has."""
    pid, ticks, fault = int(record["pid"]), int(record["start_ticks"]), str(record["fault"])
    if not _wait_free(pid, ticks, fault, RELEASE_S):
        return False, f"a thread of pid {pid} still holds {fault}"
    if not signals.is_alive(pid, ticks):
        return True, "the process is gone"
    return True, "no thread of the process holds the fault any more"


def _wait_free(pid: int, ticks: int, fault: str, timeout_s: float) -> bool:
    limit = time.monotonic() + timeout_s
    while holds(pid, ticks, fault):
        if time.monotonic() > limit:
            return False
        time.sleep(0.005)
    return True


def _name(pid: int, thread: str) -> str:
    try:
        with open(f"/proc/{pid}/task/{thread}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n")
    except OSError:
        return ""
