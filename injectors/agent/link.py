"""The agent's end of the line to the engine: one message a packet, and waits that always end.

A wait ends when the engine says so, when its time is up, or when the engine is gone: the socket closes
with the process, so a tool that was killed leaves no rank hanging.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

MAX_MESSAGE = 65536


class Link:
    """A connection to the engine.

    Args:
        path: the engine's socket.
        on_step: told the step number when the engine reads it from the target's output.
    """

    def __init__(self, path: str, on_step: Callable[[int], None] = lambda step: None) -> None:
        self.path = path
        self._on_step = on_step
        self._socket: socket.socket | None = None
        # Autograd issues collectives from its own threads; one conversation at a time.
        self._lock = threading.RLock()
        self._undone: set[str] = set()

    @property
    def fd(self) -> int:
        """The descriptor that waits sleep on, -1 without a connection."""
        return -1 if self._socket is None else self._socket.fileno()

    def connect(self) -> bool:
        """Connect if need be; False if the engine is not there."""
        if self._socket is not None:
            return True
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        try:
            peer.connect(self.path)
        except OSError:
            peer.close()
            return False
        self._socket = peer
        return True

    def close(self) -> None:
        """Close, for example in a forked child, which must have a line of its own."""
        peer, self._socket = self._socket, None
        if peer is not None:
            peer.close()

    def send(self, op: str, **fields: Any) -> bool:
        """Send one message; False if the engine is gone."""
        with self._lock:
            if self._socket is None:
                return False
            message = json.dumps({"op": op, **fields}, default=str).encode()
            try:
                self._socket.send(message[:MAX_MESSAGE], socket.MSG_NOSIGNAL)
                return True
            except OSError:
                self.close()
                return False

    def reach(self, fault: str, fields: Mapping[str, Any]) -> str:
        """Say that a fault's point is reached and block until the answer: go, skip, or gone."""
        with self._lock:
            if not (self.connect() and self.send("reached", fault=fault, **fields)):
                return "gone"
            while self._socket is not None:
                message = self._receive(None)
                if message is None:
                    continue
                if message.get("fault") == fault and message.get("op") in ("go", "skip"):
                    return str(message["op"])
                self._aside(message)
            return "gone"

    def wait_undo(self, fault: str, duration_s: float | None) -> str:
        """Block until the engine undoes the fault, the time is up or the engine is gone.

        Returns:
            undo, elapsed or gone.
        """
        limit = math.inf if duration_s is None else time.monotonic() + duration_s
        with self._lock:
            if self._socket is None and not self.connect():
                return "gone"
            while fault not in self._undone:
                left = limit - time.monotonic()
                if left <= 0:
                    return "elapsed"
                message = self._receive(left)
                if message is not None:
                    self._aside(message)
                elif self._socket is None:
                    return "gone"
            return "undo"

    def drain(self) -> None:
        """Take in what has arrived, without waiting."""
        with self._lock:
            while self._socket is not None and (message := self._receive(0.0)) is not None:
                self._aside(message)

    def _aside(self, message: Mapping[str, Any]) -> None:
        if message.get("op") == "undo":
            self._undone.add(str(message.get("fault")))
        elif message.get("op") == "step":
            self._on_step(int(message["step"]))

    def _receive(self, timeout_s: float | None) -> dict[str, Any] | None:
        """The next message; None on timeout, and None with the socket closed when the engine is gone.

        The time limit is the kernel's (SO_RCVTIMEO) and not Python's, so that a waiting thread is in
        recvfrom(2) on this socket: that is what the engine looks for from outside. None, too, when a signal
        came: `socket.recv` would then wait the whole time again, and a process whose children end all the
        time would never be done waiting.
        """
        if self._socket is None:
            return None
        flags = socket.MSG_DONTWAIT if timeout_s == 0.0 else 0
        bounded = 0.0 if timeout_s is None or math.isinf(timeout_s) else max(timeout_s, 1e-6)
        seconds, fraction = divmod(bounded, 1.0)
        limit = struct.pack("ll", int(seconds), int(fraction * 1e6) or (1 if 0 < bounded < 1 else 0))
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            raw = _receive_once(self._socket.fileno(), flags)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            self.close()
            return None
        if not raw:
            self.close()
            return None
        message = json.loads(raw)
        return message if isinstance(message, dict) else {}


def _receive_once(fd: int, flags: int) -> bytes:
    """recv(2), without Python's second try after a signal."""
    buffer = ctypes.create_string_buffer(MAX_MESSAGE)
    size = _LIBC.recv(fd, buffer, MAX_MESSAGE, flags)
    if size < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return ctypes.string_at(buffer, size)


_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.recv.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_LIBC.recv.restype = ctypes.c_ssize_t


def thread_id() -> int:
    """The kernel's id of the calling thread, in the process's own pid namespace."""
    return threading.get_native_id() or os.getpid()
