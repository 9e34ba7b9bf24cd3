"""Small programs of ours that hold a fault from outside: start one, find it again, let it go.

A helper bears a tag on its command line, by which the undo finds it when the tool is gone, and ends by itself
when its standard input ends, which the kernel sees to when the tool is killed. Standard library only.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence

from injectors import signals
from injectors.marks import MARKER

END_S = 3.0

_started: dict[str, subprocess.Popen[bytes]] = {}
"""Helpers of this process by tag: their standard input is their line of life, so it is held open here."""


def start(tag: str, command: Sequence[str], run: str) -> subprocess.Popen[bytes]:
    """Start a helper; what it says on standard output can be read from what is returned.

    Args:
        tag: one of the words of the command.
        command: the whole command line.
        run: the run's marker, for its environment.

    Raises:
        OSError: it could not be started.
    """
    assert tag in command
    helper = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={MARKER: run} if run else {},
        cwd="/",
    )
    _started[tag] = helper
    return helper


def find(tag: str, program: str) -> list[tuple[int, int]]:
    """(pid, start time) of the running helpers with exactly this tag and the program's file name."""
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
        ours = any(os.path.basename(word) == os.fsencode(os.path.basename(program)) for word in words)
        if ticks is not None and ours and tag.encode() in words:
            found.append((int(name), ticks))
    return found


def let_go(tag: str, program: str, patience_s: float = 0.0) -> tuple[bool, str]:
    """End a helper; may be repeated.

    Args:
        tag: the helper's.
        program: the file that it runs.
        patience_s: how long it may take to end by itself once its line is closed.

    Returns:
        Whether none is left, and what was done.
    """
    helper = _started.pop(tag, None)
    if helper is not None and helper.stdin is not None and helper.stdout is not None:
        helper.stdin.close()
    ended = 0
    for pid, ticks in find(tag, program):
        ways = ((0, patience_s), (signal.SIGTERM, END_S), (signal.SIGKILL, END_S))
        if not any(_ends(pid, ticks, number, wait_s) for number, wait_s in ways):
            return False, f"the helper, pid {pid}, does not end"
        ended += 1
    if helper is not None and helper.stdout is not None:
        helper.wait()
        helper.stdout.close()
    return True, f"{ended} helper ended"


def _ends(pid: int, ticks: int, number: int, wait_s: float) -> bool:
    if number:
        signals.send(pid, ticks, number)
    return signals.wait_gone(pid, ticks, wait_s)
