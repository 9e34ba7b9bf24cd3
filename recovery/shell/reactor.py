"""One thread's descriptors: who is called when which of them is ready."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable

Callback = Callable[[], None]


class Reactor:
    """An epoll with callbacks. They must not block: a descriptor that was ready when the wait ended may have
    been closed since, and its number given to another."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._callbacks: dict[int, Callback] = {}
        self._children: int | None = None

    def watch(self, fd: int, callback: Callback, *, writing: bool = False) -> None:
        """Call back whenever the descriptor is readable, or with `writing` also when it can be written to."""
        mask = select.EPOLLIN | (select.EPOLLOUT if writing else 0)
        if fd in self._callbacks:
            self._poll.modify(fd, mask)
        else:
            self._poll.register(fd, mask)
        self._callbacks[fd] = callback

    def drop(self, fd: int) -> None:
        """Forget it; before it is closed. May be repeated."""
        if self._callbacks.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def watch_children(self, callback: Callback) -> None:
        """Call back, before all others, when the state of a child has changed."""
        reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._children = reading
        self.watch(reading, lambda: self._drain(reading, callback))

    @staticmethod
    def _drain(fd: int, callback: Callback) -> None:
        os.read(fd, 4096)
        callback()

    def turn(self, timeout_s: float) -> None:
        """Wait once and call back."""
        ready = [fd for fd, _ in self._poll.poll(timeout_s)]
        # Child status first: a message of a process that died since must not be taken for life.
        ready.sort(key=lambda fd: fd != self._children)
        for fd in ready:
            callback = self._callbacks.get(fd)
            if callback is not None:
                callback()
