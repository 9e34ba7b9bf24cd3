"""The run's marker: by it a process is known to be of a run, whoever its parent is.

Standard library only, and nothing of ours: the undo path runs when the tool is already dead.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

MARKER = "TORCH_CHAOS_RUN"
"""In the environment of every process of a run."""
EXEC_S = 0.5


def variable(pid: int, name: str) -> str:
    """A variable of the environment that a process was started with; "" if it can not be told."""
    start = name.encode() + b"="
    entries = _environ(pid).split(b"\0")
    return next((e[len(start) :].decode(errors="replace") for e in entries if e.startswith(start)), "")


def environment(pid: int) -> dict[str, str]:
    """The environment that a process was started with; {} if it is gone or may not be read."""
    parts = _environ(pid).decode(errors="replace").split("\0")
    return dict(part.partition("=")[::2] for part in parts if "=" in part)


def run_of(pid: int) -> str:
    """The marker of the run that a process belongs to; "" if it has none, is gone or may not be looked at."""
    return variable(pid, MARKER)


def having(variables: Mapping[str, str]) -> list[int]:
    """The pids of the processes that were started with all of these variables, in the order of pids."""
    needles = [f"\0{name}={value}\0".encode() for name, value in variables.items()]
    pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    texts = ((pid, b"\0" + _environ(pid)) for pid in pids)
    return [pid for pid, text in texts if all(needle in text for needle in needles)]


def marked(run: str) -> list[int]:
    """The pids of the processes that carry a run's marker."""
    return having({MARKER: run})


def _environ(pid: int) -> bytes:
    try:
        environ = _read(pid, "environ")
        if environ:
            return environ
        limit = time.monotonic() + EXEC_S
        while _is_between_programs(pid) and time.monotonic() < limit:
            time.sleep(0)
        return _read(pid, "environ")
    except OSError:
        return b""


def _is_between_programs(pid: int) -> bool:
    """Whether a process is in the middle of an exec: the old program is gone, and the kernel has not yet
    written the new one's arguments and environment. Its parent may already take it for started."""
    try:
        os.readlink(f"/proc/{pid}/exe")  # refused for zombies and kernel threads, which have neither
    except OSError:
        return False
    return not _read(pid, "cmdline") and not _read(pid, "environ")


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read()
