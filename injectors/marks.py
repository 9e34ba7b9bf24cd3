"""The run's marker: by it a process is known to be of a run, whoever its parent is.

Standard library only, and nothing of ours: the undo path runs when the tool is already dead.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

MARKER = "TORCH_CHAOS_RUN"
"""In the environment of every process of a run."""


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
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""
