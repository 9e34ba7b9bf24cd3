"""Append to the history: one JSON object a line, one write(2) a line."""

from __future__ import annotations

import json
import os
import time
from typing import Any


class EventFile:
    """The agent's history file; opened at the first event, so a process without events has no descriptor."""

    def __init__(self, path: str, node: int | None = None) -> None:
        self.path = path
        self._node = node
        self._fd: int | None = None

    def write(self, event: str, **fields: Any) -> None:
        """Append an event with time and pid. A full disk or a folder that is gone must not stop a target."""
        record = {"t": time.monotonic(), "event": event, "pid": os.getpid(), "source": "agent", **fields}
        record["node"] = self._node
        line = json.dumps({key: value for key, value in record.items() if value is not None}) + "\n"
        try:
            if self._fd is None:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
                self._fd = os.open(self.path, flags, 0o600)
            os.write(self._fd, line.encode())
        except OSError:
            pass

    def close(self) -> None:
        """Give the descriptor back, for example after a fork."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)
