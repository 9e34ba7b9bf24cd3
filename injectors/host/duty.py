"""A stop/continue duty cycle on one process: start the helper, find it again, end it.

Standard library only: the reaper uses it when the tool is gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from injectors import signals
from injectors.host import duty_cycle

# A runtime may take a process for frozen that it sees stopped for 100 ms; the recovery runtime here does.
STOP_S = 0.02
END_S = 2.0

_started: dict[str, subprocess.Popen[bytes]] = {}
"""Helpers of this process by tag: their standard input is their line of life, so it is held open here."""


def start(tag: str, pid: int, ticks: int, share: float, limit_s: float, env: Mapping[str, str]) -> None:
    """Slow a process to a share of the time.

    Args:
        tag: stands on the helper's command line.
        share: how much of the time it runs, between 0 and 1.
        limit_s: when the helper ends by itself, seconds.
        env: the helper's whole environment.

    Raises:
        OSError: it could not be started.
    """
    run_s = STOP_S * share / (1.0 - share)
    words = [tag, pid, ticks, run_s, STOP_S, limit_s]
    _started[tag] = subprocess.Popen(
        [sys.executable, "-I", "-S", duty_cycle.__file__, *(str(word) for word in words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=dict(env),
        cwd="/",
    )


def find(tag: str) -> list[tuple[int, int]]:
    """(pid, start time) of the running helpers with exactly this tag."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        ticks = signals.start_ticks(int(name))
        if ticks is not None and tag.encode() in words and any(_is_helper(word) for word in words):
            found.append((int(name), ticks))
    return found


def end(tag: str, pid: int, ticks: int) -> tuple[bool, str]:
    """End the helper and let the process run; may be repeated.

    Returns:
        Whether both is so, and what was done.
    """
    ended = 0
    for helper, started in find(tag):
        signals.send(helper, started, signal.SIGTERM)
        if not signals.wait_gone(helper, started, END_S):
            signals.send(helper, started, signal.SIGKILL)
            if not signals.wait_gone(helper, started, END_S):
                return False, f"the helper, pid {helper}, does not end"
        ended += 1
    _reap(tag)
    said = f"{ended} helper ended"
    # Killed between a stop and the next go-on it would leave the process stopped.
    if not signals.send(pid, ticks, signal.SIGCONT):
        return True, f"{said}; the process is gone"
    seen = signals.wait_state(pid, "RSDIZX", 1.0)
    if seen in ("T", "t"):
        return False, f"{said}; the process is still in state {seen}"
    return True, f"{said}; SIGCONT was sent, state is now {seen or 'gone'}"


def record_tag(record: Mapping[str, Any]) -> str:
    """The tag in an undo record.

    Raises:
        ValueError: the record has none.
    """
    tag = str(record.get("data", {}).get("tag") or "")
    if not tag:
        raise ValueError("the record names no helper")
    return tag


def _is_helper(word: bytes) -> bool:
    return os.path.basename(word) == os.fsencode(os.path.basename(duty_cycle.__file__))


def _reap(tag: str) -> None:
    helper = _started.pop(tag, None)
    if helper is not None:
        assert helper.stdin is not None
        helper.stdin.close()
        helper.wait()
