"""Holds back what a store answers. A process of its own: a tracer is one thread, and must be able to die.

Two ways. `answers`: it traces the one thread that answers the store's clients, and holds each write to a
client at its entry. When this process ends, however it ends, the kernel detaches it and the thread goes on.
`cycle`: it stops and continues the whole host.

It ends when its standard input is closed, so also when the tool is gone; when its time is up; or with the
host. Standard library only. Answers one line "ready", or why not; and one line when it ends.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import struct
import sys
import time
from typing import Any

SEIZE, INTERRUPT, LISTEN, SYSCALL, GET_SYSCALL_INFO = 0x4206, 0x4207, 0x4208, 24, 0x420E
SYSGOOD = 1
WALL = 0x40000000
EVENT_STOP = 128
ENTRY = 1
# write, writev, sendto, sendmsg
WRITES = {"x86_64": (1, 20, 44, 46), "aarch64": (64, 66, 206, 211)}
# In a cycle: how long the host runs between two stops. Enough to answer all that has come.
RUN_S = 0.005

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


class Problem(Exception):
    """Why it can't be done; the message is for people."""


def ptrace(request: int, thread: int, address: int = 0, data: Any = 0) -> int:
    """One request to the kernel.

    Raises:
        ProcessLookupError: the thread is gone, or is not stopped.
        OSError: refused.
    """
    done = int(_libc.ptrace(request, thread, address, data))
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return done


class Waiter:
    """Waits for a traced thread, a time, or the end of the tool, whichever comes first."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._wake, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def pause(self, seconds: float) -> bool:
        """Sleep; False if it is time to end."""
        return self._select([0], seconds)

    def thread(self, thread: int) -> int | None:
        """The status of the thread's next stop; None if it is time to end.

        Raises:
            ChildProcessError: the thread is gone.
        """
        while True:
            found, status = os.waitpid(thread, WALL | os.WNOHANG)
            if found:
                return status
            # A stop that came since the look is in the pipe: nothing is missed.
            if not self._select([0, self._wake], None):
                return None

    def _select(self, fds: list[int], seconds: float | None) -> bool:
        left = self._limit - time.monotonic()
        if left <= 0:
            return False
        ready = select.select(fds, [], [], left if seconds is None else min(seconds, left))[0]
        if self._wake in ready:
            os.read(self._wake, 4096)
        return 0 not in ready and time.monotonic() < self._limit


class Clients:
    """The sockets of a host that are connections to its store."""

    def __init__(self, host: int, port: int) -> None:
        self._host = host
        self._port = f":{port:04X}"
        self._known: dict[str, bool] = {}

    def has(self, fd: int) -> bool:
        """Whether a descriptor is one: the thread also writes elsewhere, to a name server for example."""
        try:
            target = os.readlink(f"/proc/{self._host}/fd/{fd}")
        except OSError:
            return False
        if target not in self._known:
            self._known[target] = target.startswith("socket:[") and self._listed(target[8:-1])
        return self._known[target]

    def _listed(self, inode: str) -> bool:
        for name in ("tcp", "tcp6"):
            try:
                with open(f"/proc/{self._host}/net/{name}", encoding="ascii") as file:
                    rows = [line.split() for line in file]
            except OSError:
                continue
            if any(row[9] == inode and row[1].endswith(self._port) for row in rows):
                return True
        return False


def answers(host: int, port: int, thread: int, delay_s: float, waiter: Waiter) -> int:
    """Hold every answer for `delay_s`; returns how many were held."""
    clients = Clients(host, port)
    try:
        ptrace(SEIZE, thread, 0, SYSGOOD)
        ptrace(INTERRUPT, thread)
    except OSError as error:
        raise Problem(f"thread {thread} of pid {host} may not be traced: {error.strerror}") from None
    held = 0
    ready()
    while (status := waiter.thread(thread)) is not None:
        if not os.WIFSTOPPED(status):
            return held
        number, event = os.WSTOPSIG(status), status >> 16
        request, deliver = SYSCALL, 0
        if number == signal.SIGTRAP | 0x80:
            if _is_answer(clients, thread):
                held += 1
                if not waiter.pause(delay_s):
                    return held
        elif event == EVENT_STOP:
            # A stop of the whole process (process.stop) stays one; the one that we asked for goes on.
            request = SYSCALL if number == signal.SIGTRAP else LISTEN
        else:
            deliver = number
        try:
            ptrace(request, thread, 0, deliver)
        except ProcessLookupError:
            return held
    return held


def _is_answer(clients: Clients, thread: int) -> bool:
    """Whether the thread is about to write to a client."""
    info = ctypes.create_string_buffer(88)
    ptrace(GET_SYSCALL_INFO, thread, len(info), ctypes.addressof(info))
    if info.raw[0] != ENTRY:
        return False
    number, fd = struct.unpack_from("QQ", info.raw, 24)
    return number in WRITES.get(os.uname().machine, ()) and clients.has(fd)


def cycle(host: int, delay_s: float, waiter: Waiter) -> int:
    """Stop the host for `delay_s`, let it run for a moment, and again; returns how often."""
    fd = os.pidfd_open(host)
    stops = 0
    try:
        while True:
            signal.pidfd_send_signal(fd, signal.SIGSTOP)
            stops += 1
            if stops == 1:
                ready()
            ended = not waiter.pause(delay_s)
            signal.pidfd_send_signal(fd, signal.SIGCONT)
            if ended or not waiter.pause(RUN_S):
                return stops
    except ProcessLookupError:
        return stops
    finally:
        os.close(fd)


def probe(thread: int | None) -> None:
    """Begin to trace a thread, which does not notice, or a child of our own; it ends with this process.

    Raises:
        Problem: the kernel refuses it.
    """
    if thread is not None:
        try:
            ptrace(SEIZE, thread, 0, SYSGOOD)
        except OSError as error:
            raise Problem(f"thread {thread} may not be traced: {error.strerror}") from None
        return
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        ptrace(SEIZE, child, 0, SYSGOOD)
    except OSError as error:
        raise Problem(f"ptrace is refused: {error.strerror}") from None
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, WALL)


def ready() -> None:
    """Say that it has begun."""
    say(ready=True)


def say(**message: Any) -> None:
    """One line of JSON; nobody may be listening any more."""
    try:
        os.write(1, json.dumps(message).encode() + b"\n")
    except OSError:
        pass


def main() -> int:
    """Arguments: one JSON object; {"mode": "probe"} only looks."""
    order = json.loads(sys.argv[1])
    try:
        if order["mode"] == "probe":
            probe(order.get("thread"))
            say(ready=True)
            return 0
        waiter = Waiter(time.monotonic() + float(order["longest_s"]))
        host, delay_s = int(order["host"]), float(order["delay_s"])
        if order["mode"] == "answers":
            say(held=answers(host, int(order["port"]), int(order["thread"]), delay_s, waiter))
        else:
            say(held=cycle(host, delay_s, waiter))
    except ChildProcessError:
        say(held=None, gone=True)
    except Problem as problem:
        say(problem=str(problem))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
