"""The undo journal on disk: appended and synced before the act it covers."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

from chaos.undo.records import Journal, Opening, parse

NAME = "undo.jsonl"


class JournalFile:
    """An open journal. Every method returns only when its line is on disk. Safe to use from several
    threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._fd: int | None = None

    def open(self, opening: Opening) -> None:
        """Create the journal.

        Raises:
            OSError: the folder cannot be written to.
        """
        self._fd = os.open(
            self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o644
        )
        self._write(opening.to_line())
        # The file's name is only safe once its folder is.
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def undo(self, key: str, record: dict[str, Any]) -> None:
        """Say what would take back the fault `key`, before it is injected."""
        self._write({"op": "undo", "key": key, "record": record})

    def undone(self, key: str, by: str) -> None:
        """Say that the fault `key` has been taken back."""
        self._write({"op": "undone", "key": key, "by": by})

    def close(self, by: str, clean: bool, left: list[str]) -> None:
        """Say that the run is over and what it left behind."""
        self._write({"op": "closed", "by": by, "clean": clean, "left": left})
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _write(self, line: dict[str, Any]) -> None:
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            assert self._fd is not None, "the journal is not open"
            os.write(self._fd, data)
            os.fsync(self._fd)


def read(path: Path) -> Journal:
    """The journal at `path`, as it stands on disk."""
    return parse(path.read_text(encoding="utf-8", errors="replace").splitlines())


def append(path: Path, line: dict[str, Any]) -> None:
    """Append one line to a journal that another process opened, and sync it."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        # A line cut off by the tool's death must not swallow this one.
        os.write(fd, b"\n" if _torn(path) else b"")
        os.write(fd, json.dumps(line, separators=(",", ":")).encode() + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)


def _torn(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        if file.tell() == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
