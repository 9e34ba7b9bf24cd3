"""A stop/continue duty cycle on one process, carried out by a helper.

Standard library only: the reaper uses it when the tool is gone.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from typing import Any

from injectors import helpers, signals
from injectors.host import duty_cycle

# A runtime may take a process for frozen that it sees stopped for 100 ms; the recovery runtime here does.
STOP_S = 0.02
PROGRAM = duty_cycle.__file__


def start(tag: str, pid: int, ticks: int, share: float, limit_s: float, run: str) -> None:
    """Slow a process to a share of the time, between 0 and 1, for `limit_s` seconds at most.

    Raises:
        OSError: the helper could not be started.
    """
    run_s = STOP_S * share / (1.0 - share)
    words = [tag, str(pid), str(ticks), str(run_s), str(STOP_S), str(limit_s)]
    helpers.start(tag, [sys.executable, "-I", "-S", PROGRAM, *words], run)


def find(tag: str) -> list[tuple[int, int]]:
    """(pid, start time) of the running helpers with exactly this tag."""
    return helpers.find(tag, PROGRAM)


def end(tag: str, pid: int, ticks: int) -> tuple[bool, str]:
    """End the helper and let the process run; may be repeated.

    Returns:
        Whether both is so, and what was done.
    """
    done, said = helpers.let_go(tag, PROGRAM)
    if not done:
        return False, said
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
