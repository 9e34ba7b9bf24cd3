"""Ctrl-C and its kin, turned into one exception that clean-up cannot be interrupted by."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(BaseException):
    """The user stopped the run. Not an Exception: nothing between the loop and its end may swallow it."""


class Interrupts:
    """Raises `Interrupted` in the main thread at the first SIGINT, SIGTERM or SIGHUP.

    Later ones do nothing: what is under way by then is the clean-up, which takes seconds and must not be cut
    short. Inside `held()` the first one waits until the block has ended.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.seen: signal.Signals | None = None
        self._held = 0
        self._raised = False
        self._before: dict[signal.Signals, signal.Handlers | int | object] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in self.SIGNALS:
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal() returned

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.seen is None:
            self.seen = signal.Signals(number)
        self._raise()

    def _raise(self) -> None:
        if self.seen is not None and not self._raised and not self._held:
            self._raised = True
            raise Interrupted(self.seen.name)

    @contextmanager
    def held(self) -> Iterator[None]:
        """A block that an interruption does not cut short."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            self._raise()
