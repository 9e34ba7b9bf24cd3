"""Wakes a loop that sleeps in poll, from any thread."""

from __future__ import annotations

import os


class Wake:
    """A pipe: `fd` can be read once somebody has called `wake`."""

    def __init__(self) -> None:
        self.fd, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def wake(self) -> None:
        """Have the loop look. Harmless when it looks already, and when it is over."""
        try:
            os.write(self._write, b"!")
        except OSError:
            pass

    def drain(self) -> None:
        """Forget the calls so far; before the look, so that none is lost."""
        try:
            os.read(self.fd, 4096)
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Close both ends."""
        # A late call must not hit a descriptor that is another's by then.
        write, self._write = self._write, -1
        os.close(write)
        os.close(self.fd)
