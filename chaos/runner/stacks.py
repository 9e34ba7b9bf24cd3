"""Where every rank is in its Python code, written down before a run that took too long is ended.

Each Python process of a target prints its stacks when it gets SIGURG (`injectors/agent/boot` sets that up).
The kernel's default for that signal is to ignore it, and the printing needs no Python lock: a rank that holds
it in a C call still answers. One that is stopped cannot, and that is said.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from chaos.clusters import processes
from injectors import signals

NUMBER = signal.SIGURG
ANSWER_S = 1.0
LOOK_S = 0.005
ANNOUNCED = b"Current thread 0x"
"""What the last of the stacks that a process prints begins with: the thread that took the signal."""


def dump(ranks: Mapping[int, tuple[int, int]], printed: Callable[[int], Path], out: Path) -> str:
    """Have every rank print its stacks, one after the other; returns the text, which is also written.

    Args:
        ranks: pid and start time of each rank's process.
        printed: the file that a rank's stderr goes to.
        out: where the collected text goes.
    """
    text = "\n".join(
        f"{_heading(rank, *who)}\n{_one(*who, printed(rank))}" for rank, who in sorted(ranks.items())
    )
    out.write_text(text, encoding="utf-8")
    return text


def _heading(rank: int, pid: int, start_ticks: int) -> str:
    process = processes.read(pid)
    state = process.state if process is not None and process.start_ticks == start_ticks else "gone"
    return f"rank {rank}, pid {pid}, state {state}:"


def _one(pid: int, start_ticks: int, printed: Path) -> str:
    process = processes.read(pid)
    if process is None or process.start_ticks != start_ticks or process.ended:
        return "  it has ended\n"
    if process.state in "Tt":
        return "  it is stopped and cannot answer\n"
    if not signals.mask_has(pid, "SigCgt", NUMBER):
        return "  it is no Python process that answers\n"
    begin = printed.stat().st_size
    try:
        os.kill(pid, NUMBER)
    except ProcessLookupError:
        return "  it has ended\n"
    return _answer(printed, begin)


def _answer(printed: Path, begin: int) -> str:
    """What comes to be in the file after `begin`, until it is a whole answer or nothing more comes."""
    limit, said = time.monotonic() + ANSWER_S, b""
    while time.monotonic() < limit:
        with printed.open("rb") as file:
            file.seek(begin)
            now = file.read()
        if ANNOUNCED in now and now == said:
            break
        said = now
        time.sleep(LOOK_S)
    lines = said.decode(errors="replace").splitlines()
    return "".join(f"  {line}\n" for line in lines) or "  it did not answer\n"
