"""The process that delays a store, seen from the tool: started, told to end, found again by its tag."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from injectors import signals
from injectors.marks import MARKER, having

TAG = "TORCH_CHAOS_HELPER"
"""Environment variable of every helper; with the run's marker it names one fault's helper."""
SCRIPT = Path(__file__).parent / "delayer.py"
START_S = 10.0

# The write end of a helper's standard input: it ends when this is closed, and so when the tool is gone.
_running: dict[tuple[str, str], subprocess.Popen[str]] = {}


@functools.cache
def probe() -> str | None:
    """None if a process of ours may trace another one here; else why not."""
    return may_trace(None)


def may_trace(thread: int | None) -> str | None:
    """None if a process of ours may trace this thread (None: a child of its own); else why not."""
    answer = _first_line(_start({"mode": "probe", "thread": thread}, {}))
    if answer.get("ready"):
        return None
    return f"{answer.get('problem')}\n  mend: run as root, or allow it (sysctl kernel.yama.ptrace_scope=0)"


def start(run: str, tag: str, order: Mapping[str, Any]) -> str | None:
    """Start a helper; returns why it could not do its work, None if it does."""
    process = _start(order, {MARKER: run, TAG: tag})
    answer = _first_line(process, keep=True)
    if answer.get("ready"):
        _running[run, tag] = process
        return None
    _end(process)
    return str(answer.get("problem") or "the helper ended without a word")


def stop(run: str, tag: str) -> dict[str, Any]:
    """Tell a helper that this process started to end; what it says of its work, {} if there is none."""
    process = _running.pop((run, tag), None)
    return {} if process is None else _end(process)


def find(run: str, tag: str) -> list[int]:
    """The pids of a fault's helpers, whoever started them; more than one only after an error."""
    return having({MARKER: run, TAG: tag})


def kill(run: str, tag: str) -> bool:
    """End a fault's helpers by force; False if one is still there."""
    ended = True
    for pid in find(run, tag):
        ticks = signals.start_ticks(pid)
        if ticks is not None and signals.send(pid, ticks, 9):
            ended = signals.wait_gone(pid, ticks, 2.0) and ended
    return ended


def traced(pid: int) -> list[int]:
    """The threads of a process that someone traces."""
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/status", encoding="utf-8", errors="replace") as file:
            if any(line.startswith("TracerPid:") and int(line.split()[1]) for line in file):
                found.append(int(thread))
    return found


def _start(order: Mapping[str, Any], env: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(SCRIPT), json.dumps(order)],
        env={**os.environ, **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def _first_line(process: subprocess.Popen[str], keep: bool = False) -> dict[str, Any]:
    """The helper's first word. Without `keep` it is waited for, and its pipes are closed."""
    assert process.stdout is not None
    text = process.stdout.readline()
    if not keep:
        _end(process)
    return dict(json.loads(text)) if text else {}


def _end(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    try:
        process.wait(START_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    text = process.stdout.read()
    process.stdout.close()
    return dict(json.loads(text)) if text.strip() else {}
