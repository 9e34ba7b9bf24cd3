"""The seam that agents know by its protocol, and the events file, as the package `recovery` has them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

EVENTS_PROTOCOL = "recovery-events-1"
listeners: list[Callable[[str, dict[str, Any]], None]] = []
backend_filters: list[Callable[[Any], Any]] = []


def emit(event: str, **fields: Any) -> None:
    """Tell the listeners, then append one line."""
    for listener in listeners:
        listener(event, fields)
    line = {"t": time.monotonic(), "event": event, "pid": os.getpid(), "source": "recovery", **fields}
    fd = os.open(os.environ["RECOVERY_EVENTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, json.dumps(line).encode() + b"\n")
    os.close(fd)
