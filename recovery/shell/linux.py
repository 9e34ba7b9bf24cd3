"""The few Linux calls that Python does not offer, by ctypes."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_SYS_PIDFD_GETFD = 438


def become_subreaper() -> None:
    """Orphaned descendants become children of this process, so their fate is visible here."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Be killed when the parent dies; if it has died already, end now.

    The kernel watches the *thread* that forked this process, so fork from a main thread.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def lease_clock() -> float:
    """Seconds of the clock that leases are counted by: it goes on while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def enter_namespace(fd: int) -> None:
    """Move this process into the namespace of a descriptor of /proc/PID/ns/...

    Raises:
        OSError: not allowed, or it is gone.
    """
    if _libc.setns(fd, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"setns: {os.strerror(code)}")
    # New credentials make a process's /proc entries root's; its own children and parent must still see them.
    _prctl(_PR_SET_DUMPABLE, 1)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl({option}): {os.strerror(code)}")


def duplicate_fd(pidfd: int, fd: int) -> int | None:
    """Another process's descriptor, duplicated here; None if it is gone by now.

    Raises:
        PermissionError: no ptrace rights on that process (containers often take them away).
    """
    result = int(_libc.syscall(_SYS_PIDFD_GETFD, pidfd, fd, 0))
    if result >= 0:
        return result
    code = ctypes.get_errno()
    if code == 1:  # EPERM
        raise PermissionError(code, "pidfd_getfd: no ptrace rights")
    return None


def can_duplicate_from_children() -> bool:
    """Whether this process may take a child's descriptors: tried, not guessed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)  # until the parent closes its end
        os._exit(0)
    os.close(reading)
    try:
        pidfd = os.pidfd_open(child)
        try:
            copy = duplicate_fd(pidfd, 0)
            if copy is not None:
                os.close(copy)
        except PermissionError:
            return False
        finally:
            os.close(pidfd)
        return True
    finally:
        os.close(writing)
        os.waitpid(child, 0)


def start_ticks(pid: int) -> int | None:
    """When the process started, in clock ticks since boot: with the pid it names one process for good."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rsplit(b")", 1)[1].split()[19])
    except (FileNotFoundError, ProcessLookupError):
        return None


def run_queue_wait_s(pid: int) -> float:
    """Seconds that the process has been runnable without a core, since its start."""
    try:
        with open(f"/proc/{pid}/schedstat", "rb") as schedstat:
            return int(schedstat.read().split()[1]) / 1e9
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return 0.0


@dataclass(frozen=True)
class Ends:
    """Where the sockets of one generation end: a loopback address of its own, or listening ports on nodes."""

    address: str | None = None
    ports: frozenset[tuple[str, int]] = frozenset()

    def has(self, sock: socket.socket) -> bool:
        """Whether one of the socket's ends is among them.

        Raises:
            OSError: it is not connected.
        """
        ends = (sock.getpeername()[:2], sock.getsockname()[:2])
        return any(end[0] == self.address or end in self.ports for end in ends)

    def as_json(self) -> dict[str, Any]:
        return {"address": self.address, "ports": sorted(self.ports)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Ends:
        return cls(data["address"], frozenset((str(host), int(port)) for host, port in data["ports"]))


def shut_sockets(pid: int, ends: Ends) -> int:
    """End every wait of `pid` on TCP sockets with one of these ends; returns how many were shut.

    Works on a stopped process and needs nothing from it: no thread, no GIL.

    Raises:
        PermissionError: no ptrace rights on that process.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return 0
    count = 0
    try:
        for fd in _socket_fds(pid):
            copy = duplicate_fd(pidfd, fd)
            sock = _socket_of(copy) if copy is not None else None
            if sock is not None:
                with sock:
                    count += _shut_if_of(sock, ends)
    finally:
        os.close(pidfd)
    return count


def own_sockets() -> Iterator[tuple[int, socket.socket]]:
    """This process's sockets as they are now: the inode of each, and a copy that is closed afterwards."""
    for fd in _socket_fds(os.getpid()):
        try:
            copy = os.dup(fd)
        except OSError:
            continue  # closed meanwhile
        sock = _socket_of(copy)
        if sock is not None:
            with sock:
                yield os.fstat(sock.fileno()).st_ino, sock


def _socket_of(fd: int) -> socket.socket | None:
    """Takes a descriptor over; None, and it is closed, if it was reused for a file after one had looked."""
    try:
        return socket.socket(fileno=fd)
    except OSError:
        os.close(fd)
        return None


def _socket_fds(pid: int) -> list[int]:
    """Descriptors vanish while one reads; whatever is gone needs no release."""
    found = []
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except (FileNotFoundError, ProcessLookupError):
        return []
    for name in names:
        try:
            if os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                found.append(int(name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _shut_if_of(sock: socket.socket, ends: Ends) -> int:
    try:
        if sock.family != socket.AF_INET:
            return 0
        # A listening socket has no peer and raises here: it must stay, gloo's own thread would abort
        # the process if its accept failed.
        if not ends.has(sock):
            return 0
        sock.shutdown(socket.SHUT_RDWR)
        return 1
    except OSError:
        return 0  # not connected any more: it waits for nothing
