"""Release from inside, where the supervisor can't do it: a thread that waits for its word.

Used with NCCL (a kernel in flight has no socket to shut; only `abort` in the process ends it) and where
ptrace rights are missing, as in many containers. It needs the GIL, so it is second best.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from recovery.shell.channel import Channel
from recovery.shell.linux import Ends, shut_sockets


class Insider:
    """Started after the fork, never in a template."""

    def __init__(self, channel: Channel, abort: Callable[[], None]) -> None:
        self._channel = channel
        self._abort = abort
        threading.Thread(target=self._wait, name="recovery-release", daemon=True).start()

    def _wait(self) -> None:
        while True:
            try:
                message = self._channel.receive()
            except (EOFError, OSError):
                return
            self._abort()
            shut_sockets(os.getpid(), Ends.from_json(message["ends"]))
