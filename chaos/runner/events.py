"""Events of a scenario on disk: ours appended, everybody's read as they come, all merged into one history."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos.runner.naming import Names

Event = dict[str, Any]


class EventLog:
    """The engine's own events, appended to the file that the target and the agents append to. Thread-safe.

    Args:
        path: the events file.
        on_event: told of each event of ours as it is written.
    """

    def __init__(self, path: Path, on_event: Callable[[Event], None] = lambda event: None) -> None:
        self.path = path
        self._on_event = on_event
        self._lock = threading.Lock()
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def emit(self, event: str, *, t: float | None = None, **fields: Any) -> None:
        """Write one event. `t` is monotonic time in seconds, now if None; fields that are None are left
        out."""
        moment = time.monotonic() if t is None else t
        known = {key: value for key, value in fields.items() if value is not None}
        line: Event = {"t": moment, "event": event, "pid": os.getpid(), "source": "engine", **known}
        with self._lock:
            if self._fd < 0:
                return
            # One write on an O_APPEND descriptor: lines of several processes never mix.
            os.write(self._fd, json.dumps(line, separators=(",", ":"), default=str).encode() + b"\n")
        self._on_event(line)

    def close(self) -> None:
        """No more events. May be repeated."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1


class Tail:
    """Reads the complete lines that were appended to a file since the last look. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._at = 0
        self._rest = b""

    def lines(self) -> list[bytes]:
        """The new complete lines, oldest first."""
        with self._lock:
            try:
                size = os.stat(self.path).st_size
                if size <= self._at:
                    return []
                with open(self.path, "rb") as file:
                    file.seek(self._at)
                    data = file.read()
            except FileNotFoundError:
                return []
            self._at += len(data)
            *lines, self._rest = (self._rest + data).split(b"\n")
            return lines

    def events(self) -> list[Event]:
        """The new events, oldest first; lines that are no JSON object are left to the judge to count."""
        found = []
        for line in self.lines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                found.append(event)
        return found


def merge(raw: Path, history: Path, names: Names) -> None:
    """Sort all events by time into the history, and name processes by the pids that the engine knows.

    Args:
        raw: the events file, removed afterwards.
        history: where the history goes.
        names: what the engine knows.
    """
    lines = raw.read_text(encoding="utf-8", errors="replace").splitlines() if raw.exists() else []
    keyed = sorted(
        ((_time(line), index, line) for index, line in enumerate(lines)), key=lambda item: item[:2]
    )
    out = [_renamed(line, names) for _, _, line in keyed if line.strip()]
    temporary = history.with_suffix(".part")
    temporary.write_text("".join(f"{line}\n" for line in out), encoding="utf-8")
    os.replace(temporary, history)
    raw.unlink(missing_ok=True)


def _time(line: str) -> float:
    # Lines that are torn keep their place at the front; the judge counts them.
    try:
        value = json.loads(line)
        return float(value["t"])
    except (ValueError, KeyError, TypeError):
        return 0.0


def _renamed(line: str, names: Names) -> str:
    if not names.known and not names.own_pids:
        return line
    try:
        event = json.loads(line)
    except ValueError:
        return line
    renamed = names.renamed(event) if isinstance(event, dict) else event
    return line if renamed is event else json.dumps(renamed, separators=(",", ":"))
