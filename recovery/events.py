"""What the runtime does, as it does it: JSON lines in the file named by RECOVERY_EVENTS.

`listeners` are called in the process where an event happens, before it is written, and may block: the
runtime waits. `backend_filters` see every new communication backend before it is used. Both are seams
for tools that watch or disturb a job; the runtime itself registers nothing.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

EVENTS_PROTOCOL = "recovery-events-1"

listeners: list[Callable[[str, dict[str, Any]], None]] = []
backend_filters: list[Callable[[Any], Any]] = []

_file: tuple[str, int] | None = None
_given_up: str | None = None


def emit(event: str, **fields: Any) -> None:
    """Tell the listeners, then append one line to the events file (if one is named)."""
    tell(event, **fields)
    path = os.environ.get("RECOVERY_EVENTS")
    if not path or path == _given_up:
        return
    line = {"t": time.monotonic(), "event": event, "pid": os.getpid(), "source": "recovery", **fields}
    node = os.environ.get("RECOVERY_NODE")
    if node is not None:
        line["node"] = int(node)
    data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
    # One write on an O_APPEND descriptor: lines of several processes never mix.
    try:
        os.write(_descriptor(path), data)
    except OSError as error:
        _give_up(path, error)


def tell(event: str, **fields: Any) -> None:
    """Tell the listeners only: for boundaries too frequent or too fine for the record."""
    for listener in listeners:
        listener(event, fields)


def filtered(backend: Any) -> Any:
    """The backend as the filters want it to be seen."""
    for backend_filter in backend_filters:
        backend = backend_filter(backend)
    return backend


def _give_up(path: str, error: OSError) -> None:
    """Training must not die of its log. Whoever needs the record finds it incomplete, and why."""
    global _given_up
    _given_up = path
    print(f"recovery: no more events can be written to {path}: {error}", file=sys.stderr, flush=True)


def _descriptor(path: str) -> int:
    global _file
    if _file is None or _file[0] != path:
        _file = (path, os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600))
    return _file[1]
