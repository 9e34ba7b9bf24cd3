"""The processes of this host, as /proc shows them, and how those of one run are recognised and ended.

Standard library and `injectors.marks` only: the reaper, which outlives the tool, uses it too.

A process belongs to a run if its initial environment holds the run's marker. That survives forks, double
forks, a new session, a new parent and a new namespace; only an exec with a scrubbed environment escapes it,
which is why command targets also get a PID namespace of their own.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from injectors import marks

MARKER = marks.MARKER
# Beside the marker, in what is started on a node of a cluster.
NODE = "TORCH_CHAOS_NODE"


@dataclass(frozen=True)
class Process:
    """One process: `pid` may be reused, `pid` with `start_ticks` (since boot) names it for good."""

    pid: int
    start_ticks: int
    state: str
    ppid: int

    @property
    def ended(self) -> bool:
        """A zombie has ended: only its parent has not looked yet."""
        return self.state in ("Z", "X")


def read(pid: int) -> Process | None:
    """A process, or None if there is none of that pid."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The command in the second field may hold blanks and brackets; what follows the last one does
            # not.
            fields = file.read().rpartition(")")[2].split()
        return Process(pid, int(fields[19]), fields[0], int(fields[1]))
    except (OSError, IndexError, ValueError):
        return None


def argv(pid: int) -> list[str]:
    """The command line, [] if the process is gone or a kernel thread."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return [part.decode(errors="replace") for part in file.read().split(b"\0") if part]
    except OSError:
        return []


def pids() -> list[int]:
    """Every pid in this pid namespace."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def marked(run: str, spare: Collection[int] = ()) -> list[Process]:
    """The living processes that carry a run's marker, without those in `spare`."""
    found = []
    for pid in marks.marked(run):
        process = None if pid in spare else read(pid)
        if process is not None and not process.ended:
            found.append(process)
    return found


def other_runs(run: str) -> bool:
    """Whether processes of another run are alive. The run that this process is itself a part of is none."""
    own = {"", run, os.environ.get(MARKER)}
    return any(marks.run_of(pid) not in own for pid in pids())


def descendants(root: int) -> list[Process]:
    """The living descendants of a process, nearest first."""
    children: dict[int, list[Process]] = {}
    for pid in pids():
        process = read(pid)
        if process is not None:
            children.setdefault(process.ppid, []).append(process)
    found: list[Process] = []
    queue = [root]
    while queue:
        for child in children.get(queue.pop(0), ()):
            queue.append(child.pid)
            if not child.ended:
                found.append(child)
    return found


def namespace_of(pid: int) -> int | None:
    """The inode of a process's pid namespace, or None if it is gone or may not be read."""
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:
        return None


def node_of(pid: int) -> int | None:
    """The node of a cluster that a process was started on, or None if it is on none or may not be read."""
    word = marks.variable(pid, NODE)
    return int(word) if word.isdigit() else None


def in_namespace(inode: int) -> list[Process]:
    """The living processes of a pid namespace."""
    found = []
    for pid in pids():
        if namespace_of(pid) == inode:
            process = read(pid)
            if process is not None and not process.ended:
                found.append(process)
    return found


def inner_pid(pid: int) -> int | None:
    """The pid that a process has in its own, innermost pid namespace."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("NSpid:"):
                    return int(line.split()[-1])
    except (OSError, ValueError):
        pass
    return None


def is_alive(pid: int, start_ticks: int) -> bool:
    """Whether exactly this process still runs."""
    process = read(pid)
    return process is not None and process.start_ticks == start_ticks and not process.ended


def kill(process: Process) -> bool:
    """SIGKILL exactly this process. False if it is gone or its pid belongs to another by now."""
    try:
        fd = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        # The pidfd is open: from here on the pid cannot be given away under us.
        now = read(process.pid)
        if now is None or now.start_ticks != process.start_ticks:
            return False
        signal.pidfd_send_signal(fd, signal.SIGKILL)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def wait_ended(pid: int, timeout_s: float) -> bool:
    """Wait until a process has ended (a zombie counts). False on timeout."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return True
    try:
        return bool(select.select([fd], [], [], timeout_s)[0])
    finally:
        os.close(fd)


def kill_marked(run: str, timeout_s: float, spare: Collection[int] = ()) -> list[Process]:
    """SIGKILL every process of a run; returns those that would not die."""
    return kill_all(lambda: marked(run, spare), timeout_s)


def kill_all(look: Callable[[], list[Process]], timeout_s: float) -> list[Process]:
    """SIGKILL what `look` finds until two looks in a row find none; returns those that would not die.

    Looking again is what catches a process that was forked between the look and the kill.
    """
    limit = time.monotonic() + timeout_s
    quiet = 0
    while True:
        found = look()
        quiet = 0 if found else quiet + 1
        if quiet >= 2 or time.monotonic() > limit:
            return found
        for process in found:
            kill(process)
        time.sleep(0.01)
