"""Faults that stay in force while the job goes on: a thread holds each one, and takes it back at the end.

The thread has a line of its own to the engine, so that it can wait there while the training talks on the
other one. Its name is one of ours and is seen from outside: while it is there, so is the fault.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from .link import Link

if TYPE_CHECKING:
    from .core import Agent
    from .trigger import Armed

LONGEST_S = 3600.0
START_S = 5.0


def thread_name(fault: str) -> str:
    """The name of the thread that holds a fault; the kernel keeps 15 characters."""
    return f"chaos:{fault}"[:15]


def hold(agent: Agent, armed: Armed, end: Callable[[], str]) -> bool:
    """Keep a fault in force until the engine's word, its time or the tool's end.

    Args:
        agent: whose engine is asked.
        armed: the fault; its `duration_s` bounds it.
        end: takes the fault back and says what it did; called once, in the thread.

    Returns:
        Whether a thread holds it now. If not, the fault has been taken back.
    """
    holder = _Holder(agent, armed, end)
    holder.start()
    if not holder.ready.wait(START_S) or not holder.connected:
        holder.finish("no engine")
        return False
    return True


class _Holder(threading.Thread):
    def __init__(self, agent: Agent, armed: Armed, end: Callable[[], str]) -> None:
        super().__init__(name=thread_name(armed.id), daemon=True)
        duration_s = armed.params.get("duration_s")
        self._limit_s = LONGEST_S if duration_s is None else float(duration_s)
        self._fault = armed.id
        self._link = Link(agent.link.path)
        self._end = end
        self._once = threading.Lock()
        self._start = time.monotonic()
        self.ready = threading.Event()
        self.connected = False

    def run(self) -> None:
        """Wait, take the fault back, and say so."""
        with open("/proc/thread-self/comm", "w", encoding="utf-8") as file:
            file.write(self.name)
        self.connected = self._link.connect() and self._link.send("holding", fault=self._fault)
        self.ready.set()
        if self.connected:
            self.finish(self._link.wait_undo(self._fault, self._limit_s))
            self._link.close()

    def finish(self, reason: str) -> None:
        """Take the fault back, once."""
        if not self._once.acquire(blocking=False):
            return
        what = self._end()
        held_s = time.monotonic() - self._start
        data = {"held_s": held_s, "reason": reason}
        said = f"{what}, after {held_s:.3f} s ({reason})"
        self._link.send("undone", fault=self._fault, evidence={"what": said, "proven": True, "data": data})
