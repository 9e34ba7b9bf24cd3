"""Carry out an undo record. Used by the engine, by the reaper that outlives it, and by hand.

Standard library only; a record is plain data and names its victim by pid and start time, so carrying it
out twice, or after the victim died, or after its pid was given to another process, does no harm.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from typing import Any

from injectors import signals

SIGNAL_CONT = "signal.cont"
AGENT_RELEASE = "agent.release"


def carry_out(record: Mapping[str, Any]) -> dict[str, Any]:
    """Undo one fault; repeatable.

    Returns:
        {"done": bool, "kind", "pid", "detail"}: done is True when nothing of the fault can be left.

    Raises:
        ValueError: a kind that this version does not know. Skipping it would hide a leftover.
    """
    kind = record.get("kind")
    pid, ticks = int(record["pid"]), int(record["start_ticks"])
    if kind == SIGNAL_CONT:
        done, detail = _continue(pid, ticks)
    elif kind == AGENT_RELEASE:
        done, detail = _released(pid, ticks)
    else:
        raise ValueError(f"unknown undo record kind {kind!r} (known: {SIGNAL_CONT}, {AGENT_RELEASE})")
    return {"done": done, "kind": kind, "pid": pid, "detail": detail}


def _continue(pid: int, ticks: int) -> tuple[bool, str]:
    if not signals.send(pid, ticks, signal.SIGCONT):
        return True, "the process is gone"
    seen = signals.wait_state(pid, "RSDIZX", 1.0)
    if seen in ("T", "t"):
        return False, f"SIGCONT was sent, the process is still in state {seen}"
    return True, f"SIGCONT was sent, state is now {seen or 'gone'}"


def _released(pid: int, ticks: int) -> tuple[bool, str]:
    """The agent lets go by itself when it is told to, when its time is up and when the tool is gone."""
    limit = time.monotonic() + 1.0
    while signals.is_alive(pid, ticks):
        if not signals.waits_for_socket(pid):
            return True, "no thread of the process waits for the tool any more"
        if time.monotonic() > limit:
            return False, "a thread of the process still waits on the agent's socket"
        time.sleep(0.005)
    return True, "the process is gone"
