"""Stand between this process's Python code and the files that it writes, those that a rule asks for.

Covered: `open` and all that is built on it (pathlib, tempfile, shutil, gzip, DCP's writer), `os.write`,
`pwrite`, `writev`, `fsync`, `fdatasync` and `sendfile` on a matching descriptor, and `torch.save` to a path,
whose writer is C++: while a rule matches the path it gets a Python stream. Not covered: what C code writes by
itself (`numpy.save` of an array, safetensors, memory maps), and files that were open before.

The faulty layer is the raw one, below Python's buffer, so an error shows where the kernel's would: at the
write that overflows the buffer, at `flush` or at `close`.
"""

from __future__ import annotations

import builtins
import errno
import fnmatch
import functools
import io
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .replacing import Replacing

REAL_OPEN = builtins.open
REAL = {name: getattr(os, name) for name in ("write", "pwrite", "writev", "fsync", "fdatasync", "sendfile")}
WRITING = frozenset("wax+")


@dataclass(frozen=True)
class Write:
    """One write that was asked for.

    Attributes:
        path: the file's whole path.
        fd: its descriptor.
        at: where in the file it begins.
        data: what is to be written.
        put: really writes some bytes there; returns how many were taken.
        skip: moves the position on as a write of that many bytes would.
    """

    path: str
    fd: int
    at: int
    data: memoryview
    put: Callable[[memoryview], int]
    skip: Callable[[int], None]


class Rule:
    """What becomes of the writes to some files. Subclasses say it."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._pid = os.getpid()
        self.active = True

    def covers(self, path: str) -> bool:
        """Whether a file is meant. A forked child has no thread that would end the rule, so it has none."""
        return self.active and os.getpid() == self._pid and matches(path, self.pattern)

    def write(self, asked: Write) -> int:
        """Carry out a write; returns what the writer is told, or raises OSError."""
        raise NotImplementedError

    def sync(self, path: str, fd: int) -> None:
        """Called before a file is synced; may raise OSError."""


def matches(path: str, pattern: str) -> bool:
    """Whether a path fits a pattern, part by part; `**` stands for any number of parts."""
    return _fits(path.strip("/").split("/"), pattern.strip("/").split("/"))


def _fits(parts: list[str], wanted: list[str]) -> bool:
    if not wanted:
        return not parts
    if wanted[0] == "**":
        return any(_fits(parts[n:], wanted[1:]) for n in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], wanted[0]) and _fits(parts[1:], wanted[1:])


def whole(path: Any) -> str:
    """The whole path of what `open` was given: a name, a path, or a descriptor; "" if it has none."""
    try:
        if isinstance(path, int):
            return os.readlink(f"/proc/self/fd/{path}")
        return os.path.realpath(os.fsdecode(path))
    except (OSError, TypeError, ValueError):
        return ""


class Files:
    """The rules of this process. Nothing is replaced while there is none."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []
        self._replacing = Replacing()
        self._lock = threading.Lock()

    def add(self, rule: Rule) -> None:
        """Have a rule from now on."""
        with self._lock:
            if not self._rules:
                self._replace()
            self._rules.append(rule)

    def remove(self, rule: Rule) -> None:
        """Have it no more; files that were opened under it are plain files from then on."""
        with self._lock:
            rule.active = False
            self._rules = [other for other in self._rules if other is not rule]
            if not self._rules:
                self._replacing.restore()

    def rule_for(self, path: str) -> Rule | None:
        """The rule that covers a file, the newest first."""
        return next((rule for rule in reversed(self._rules) if path and rule.covers(path)), None)

    def _replace(self) -> None:
        fakes: dict[Any, Any] = {
            REAL_OPEN: self.open,
            REAL["write"]: self._write,
            REAL["pwrite"]: self._pwrite,
            REAL["writev"]: self._writev,
            REAL["sendfile"]: self._sendfile,
            REAL["fsync"]: functools.partial(self._sync, REAL["fsync"]),
            REAL["fdatasync"]: functools.partial(self._sync, REAL["fdatasync"]),
        }
        serialization = sys.modules.get("torch.serialization")
        if serialization is not None:
            real = serialization._open_zipfile_writer
            stream_writer = serialization._open_zipfile_writer_buffer
            fakes[real] = functools.partial(self._zip_writer, real, stream_writer)
        self._replacing.everywhere(fakes)

    # -- open

    def open(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        """`open`, with the faulty layer at the bottom of files that are written and that a rule covers."""
        covered = isinstance(mode, str) and WRITING & set(mode) and self.rule_for(whole(file))
        if not covered:
            return REAL_OPEN(file, mode, buffering, encoding, errors, newline, closefd, opener)
        text, binary = "b" not in mode, mode.replace("b", "").replace("t", "")
        if buffering == 0 and text:
            raise ValueError("can't have unbuffered text I/O")
        raw = FaultyFile(self, file, binary, closefd, opener)
        if buffering == 0:
            return raw
        size = buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE
        buffer = io.BufferedRandom(raw, size) if "+" in mode else io.BufferedWriter(raw, size)
        if not text:
            return buffer
        wrapper = io.TextIOWrapper(buffer, encoding, errors, newline, line_buffering=buffering == 1)
        wrapper.mode = mode  # type: ignore[misc]  # as C's open does
        return wrapper

    def _zip_writer(self, real: Callable[[Any], Any], stream_writer: Any, target: Any) -> Any:
        """torch's writer: for a path that a rule covers the one for streams, in place of the one in C++."""
        if not isinstance(target, str | os.PathLike) or self.rule_for(whole(target)) is None:
            return real(target)
        return _closing(stream_writer, self.open(target, "wb"))

    # -- os

    def _write(self, fd: int, data: Any) -> int:
        path = whole(fd)
        rule = self.rule_for(path)
        if rule is None:
            return int(REAL["write"](fd, data))
        return rule.write(write_of(path, fd, data, lambda part: int(REAL["write"](fd, part))))

    def _pwrite(self, fd: int, data: Any, offset: int) -> int:
        path = whole(fd)
        rule = self.rule_for(path)
        if rule is None:
            return int(REAL["pwrite"](fd, data, offset))
        view = memoryview(data).cast("B")
        put = lambda part: int(REAL["pwrite"](fd, part, offset))  # noqa: E731
        return rule.write(Write(path, fd, offset, view, put, lambda size: None))

    def _writev(self, fd: int, buffers: Any) -> int:
        if self.rule_for(whole(fd)) is None:
            return int(REAL["writev"](fd, buffers))
        return self._write(fd, b"".join(bytes(part) for part in buffers))

    def _sendfile(self, out_fd: int, in_fd: int, *args: Any, **kwargs: Any) -> int:
        if self.rule_for(whole(out_fd)) is None:
            return int(REAL["sendfile"](out_fd, in_fd, *args, **kwargs))
        # What a kernel says that can't: callers such as shutil read and write instead.
        raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))

    def _sync(self, real: Callable[[int], None], fd: Any) -> None:
        number = fd if isinstance(fd, int) else fd.fileno()
        path = whole(number)
        rule = self.rule_for(path)
        if rule is not None:
            rule.sync(path, number)
        real(number)


class FaultyFile(io.FileIO):
    """A raw file whose writes go through the rule that covers it, as long as one does."""

    def __init__(self, files: Files, file: Any, mode: str, closefd: bool, opener: Any) -> None:
        super().__init__(file, mode, closefd, opener)
        self._files = files
        self._path = whole(self.fileno())

    def write(self, data: Any) -> int | None:  # type: ignore[override]  # None: as FileIO, would block
        """Write through the rule; returns what the writer is told."""
        real = super().write
        rule = self._files.rule_for(self._path)
        if rule is None:
            return real(data)
        return rule.write(write_of(self._path, self.fileno(), data, lambda part: real(part) or 0))


def write_of(path: str, fd: int, data: Any, put: Callable[[memoryview], int]) -> Write:
    """A write at the descriptor's own position."""
    at = os.lseek(fd, 0, os.SEEK_CUR) if os.path.isfile(path) else 0

    def skip(size: int) -> None:
        os.lseek(fd, size, os.SEEK_CUR)

    return Write(path, fd, at, memoryview(data).cast("B"), put, skip)


def _closing(kind: Any, stream: Any) -> Any:
    """torch's writer for streams, which closes this one at its end, as its writer for paths does."""

    class Writer(kind):  # type: ignore[misc]
        def __exit__(self, *args: Any) -> None:
            try:
                super().__exit__(*args)
            finally:
                stream.close()

    return Writer(stream)


FILES = Files()
