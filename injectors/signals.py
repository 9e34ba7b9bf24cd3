"""Signals that can not hit the wrong process: a pidfd, and the start time checked after it is open.

Standard library only, and nothing of ours: the undo path runs when the tool is already dead.
"""

from __future__ import annotations

import os
import select
import signal
import time


def start_ticks(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot, or None if it is gone."""
    stat = _stat(pid)
    return None if stat is None else int(stat[19])


def state(pid: int) -> str | None:
    """One letter as ps shows it (R S D T Z ...), or None if the process is gone."""
    stat = _stat(pid)
    return None if stat is None else stat[0]


def parent(pid: int) -> int | None:
    """The parent's pid, or None if the process is gone or hidden from this user."""
    try:
        stat = _stat(pid)
    except PermissionError:
        return None
    return None if stat is None else int(stat[1])


def cpu_ticks(pid: int) -> int | None:
    """User plus system time of all threads in clock ticks, or None if the process is gone."""
    stat = _stat(pid)
    return None if stat is None else int(stat[11]) + int(stat[12])


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third on; the command before them may hold blanks and ')'."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def open_pidfd(pid: int, ticks: int) -> int | None:
    """A pidfd for exactly this process, to be closed by the caller; None if it is gone.

    The start time is compared after the pidfd is open: from then on the pid can not be reused under us.
    """
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    if start_ticks(pid) != ticks:
        os.close(fd)
        return None
    return fd


def send(pid: int, ticks: int, number: int) -> bool:
    """Send a signal to exactly this process. False if it is gone or the pid belongs to another by now."""
    fd = open_pidfd(pid, ticks)
    if fd is None:
        return False
    try:
        signal.pidfd_send_signal(fd, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)


def is_alive(pid: int, ticks: int) -> bool:
    """Whether exactly this process still runs; a zombie has ended."""
    return start_ticks(pid) == ticks and state(pid) not in ("Z", "X", None)


def wait_gone(pid: int, ticks: int, timeout_s: float) -> bool:
    """Wait until exactly this process has ended (a zombie counts). False on timeout."""
    fd = open_pidfd(pid, ticks)
    if fd is None:
        return True
    try:
        return bool(select.select([fd], [], [], timeout_s)[0])
    finally:
        os.close(fd)


def wait_state(pid: int, wanted: str, timeout_s: float) -> str | None:
    """Wait until the state is one of the letters in `wanted`; returns the last state seen."""
    start = time.monotonic()
    while True:
        seen = state(pid)
        waited_s = time.monotonic() - start
        if seen is None or seen in wanted or waited_s > timeout_s:
            return seen
        # The states looked for may be short, so look as often as possible at first.
        time.sleep(0.0 if waited_s < 0.02 else 0.001)


def mask_has(pid: int, mask: str, number: int) -> bool | None:
    """Whether a signal is in a mask of /proc/PID/status; None if the process is gone.

    Args:
        mask: SigCgt (has a handler), SigIgn (is ignored), ShdPnd (waits to be delivered).
    """
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith(mask + ":"):
                    return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    except (FileNotFoundError, ProcessLookupError):
        pass
    return None


def waits_for_socket(pid: int) -> bool:
    """Whether a thread of the process is blocked in recvfrom on a SEQPACKET unix socket, as the agent does.

    Reads /proc/PID/task/*/syscall, which needs the right to trace the process. Where that is refused the
    answer is False: it then proves nothing, and callers say so.
    """
    return bool(blocked_receives(pid))


def blocked_receives(pid: int) -> list[tuple[int, int]]:
    """(thread id, file descriptor) of every thread blocked in recvfrom(2) on a unix socket."""
    found = []
    for thread, number, args in syscalls(pid):
        if number != _RECVFROM.get(os.uname().machine) or not args:
            continue
        try:
            target = os.readlink(f"/proc/{pid}/fd/{args[0]}")
        except OSError:
            continue
        if target.startswith("socket:[") and target[8:-1] in _seqpacket_inodes(pid):
            found.append((thread, args[0]))
    return found


def syscalls(pid: int) -> list[tuple[int, int, tuple[int, ...]]]:
    """(thread id, system call number, arguments) of every blocked thread; empty where it may not be read."""
    found = []
    try:
        threads = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/syscall", encoding="ascii") as file:
                words = file.read().split()
        except OSError:
            continue
        if words and words[0].lstrip("-").isdigit():
            found.append((thread, int(words[0]), tuple(int(word, 16) for word in words[1:7])))
    return found


_RECVFROM = {"x86_64": 45, "aarch64": 207}
_SEQPACKET_TYPE = "0005"


def _seqpacket_inodes(pid: int) -> set[str]:
    """Inodes of the SEQPACKET unix sockets in the process's network namespace."""
    found = set()
    try:
        with open(f"/proc/{pid}/net/unix", encoding="ascii", errors="replace") as file:
            for line in file:
                words = line.split()
                if len(words) > 6 and words[4] == _SEQPACKET_TYPE:
                    found.add(words[6])
    except OSError:
        pass
    return found
