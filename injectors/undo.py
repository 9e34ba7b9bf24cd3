"""Carry out an undo record. Used by the engine, by the reaper that outlives it, and by hand.

A record is plain data. It names a process by pid and start time and everything else by a tag of ours, so
carrying it out twice, or after the victim died, or after its pid was given to another process, does no harm,
and what is not ours is never touched.

The first part of a record's kind names the family; `FAMILIES` says which module has its handlers. These
modules run in the reaper, which starts without site-packages: standard library, or `site_packages()` first.
"""

from __future__ import annotations

import importlib
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

from injectors import signals

SIGNAL_CONT = "signal.cont"
AGENT_RELEASE = "agent.release"

Handler = Callable[[Mapping[str, Any]], tuple[bool, str]]
"""Takes a record; returns whether nothing of the fault can be left, and what was done, in words."""

# Each module has `HANDLERS`, a handler for each kind. Imported when a record asks for it.
FAMILIES: Mapping[str, str] = {
    "signal": "injectors.undo",
    "agent": "injectors.undo",
    "cluster": "injectors.cluster.undoing",
    "net": "injectors.net.undoing",
    "node": "injectors.node.undoing",
    "gpu": "injectors.gpu.undoing",
    "host": "injectors.host.undoing",
    "storage": "injectors.storage.undoing",
    "store": "injectors.store.undoing",
}


def carry_out(record: Mapping[str, Any]) -> dict[str, Any]:
    """Undo one fault; repeatable.

    Returns:
        {"done": bool, "kind", "pid", "detail"}: done is True when nothing of the fault can be left.

    Raises:
        ValueError: a kind that this version does not know. Skipping it would hide a leftover.
    """
    kind = str(record.get("kind"))
    module = FAMILIES.get(kind.partition(".")[0])
    handlers: Mapping[str, Handler] = importlib.import_module(module).HANDLERS if module else {}
    if kind not in handlers:
        raise ValueError(f"unknown undo record kind {kind!r}")
    done, detail = handlers[kind](record)
    return {"done": done, "kind": kind, "pid": int(record.get("pid") or 0), "detail": detail}


def site_packages() -> None:
    """Make installed packages importable in a process that was started without them (the reaper)."""
    import site

    site.main()


def _continue(record: Mapping[str, Any]) -> tuple[bool, str]:
    pid, ticks = int(record["pid"]), int(record["start_ticks"])
    if not signals.send(pid, ticks, signal.SIGCONT):
        return True, "the process is gone"
    seen = signals.wait_state(pid, "RSDIZX", 1.0)
    if seen in ("T", "t"):
        return False, f"SIGCONT was sent, the process is still in state {seen}"
    return True, f"SIGCONT was sent, state is now {seen or 'gone'}"


def _released(record: Mapping[str, Any]) -> tuple[bool, str]:
    """The agent lets go by itself when it is told to, when its time is up and when the tool is gone."""
    pid, ticks = int(record["pid"]), int(record["start_ticks"])
    limit = time.monotonic() + 1.0
    while signals.is_alive(pid, ticks):
        if not signals.waits_for_socket(pid):
            return True, "no thread of the process waits for the tool any more"
        if time.monotonic() > limit:
            return False, "a thread of the process still waits on the agent's socket"
        time.sleep(0.005)
    return True, "the process is gone"


HANDLERS: Mapping[str, Handler] = {SIGNAL_CONT: _continue, AGENT_RELEASE: _released}
