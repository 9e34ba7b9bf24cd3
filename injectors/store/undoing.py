"""How what the faults of a store leave is taken back. Runs in the reaper: standard library only."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from injectors import signals
from injectors.store import helper, replayed
from injectors.undo import Handler


def _no_delay(record: Mapping[str, Any]) -> tuple[bool, str]:
    """End the helper; the kernel detaches it from the host then."""
    data = record["data"]
    pid, ticks = int(record["pid"]), int(record["start_ticks"])
    if not helper.kill(str(data["run"]), str(data["tag"])):
        return False, "the process that delays the store is still there"
    if data["mode"] == "cycle" and signals.send(pid, ticks, signal.SIGCONT):
        seen = signals.wait_state(pid, "RSDIZX", 1.0)
        return seen not in ("T", "t"), f"the helper has ended, SIGCONT was sent, state is {seen or 'gone'}"
    return True, "the process that delayed the store has ended"


def _no_stale_key(record: Mapping[str, Any]) -> tuple[bool, str]:
    return replayed.take_back(record)


HANDLERS: Mapping[str, Handler] = {"store.delay": _no_delay, "store.stale_key": _no_stale_key}
