"""Faults of the storage that this process writes to: full, failing, slow, or forgetful."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from . import lasting
from .files import FILES, Rule, Write

if TYPE_CHECKING:
    from .core import Agent
    from .trigger import Armed

Say = Callable[[Mapping[str, Any]], None]
# Enough to prove it; a job that writes for hours must not fill the run's folder with proofs.
MOST_HITS = 100


class Struck(Rule):
    """A rule that tells of each write that it has spoilt.

    Args:
        pattern: which files.
        say: takes one line of proof.
    """

    def __init__(self, pattern: str, say: Say) -> None:
        super().__init__(pattern)
        self._say = say
        self._number = 0
        self._lock = threading.Lock()

    def tell(self, asked: Write, **data: Any) -> None:
        """One line a hit: the file, where the writer believes its data ends, and what was done to it."""
        with self._lock:
            self._number += 1
            if self._number > MOST_HITS:
                return
        seen = os.fstat(asked.fd)
        line = {
            "path": asked.path,
            "inode": seen.st_ino,
            "size": seen.st_size,
            "believed": asked.at + len(asked.data),
            **data,
        }
        self._say(line)


class Failing(Struck):
    """Takes `after_bytes` bytes in all, then fails every write, as a full or broken device does."""

    def __init__(self, pattern: str, say: Say, number: int, after_bytes: int) -> None:
        super().__init__(pattern, say)
        self._errno = number
        self._left = after_bytes
        self._room = threading.Lock()

    def write(self, asked: Write) -> int:
        """Take what there is room for; raise the error when there is none."""
        with self._room:
            room = min(self._left, len(asked.data))
            self._left -= room
        if room:
            return asked.put(asked.data[:room])
        if not asked.data:
            return 0
        self.tell(asked, error=errno.errorcode[self._errno])
        raise OSError(self._errno, os.strerror(self._errno), asked.path)

    def sync(self, path: str, fd: int) -> None:
        """A device that fails its writes fails to sync them."""
        if self._left <= 0:
            raise OSError(self._errno, os.strerror(self._errno), path)


class Slow(Struck):
    """Takes everything, late."""

    def __init__(self, pattern: str, say: Say, delay_s: float, bytes_per_s: float | None) -> None:
        super().__init__(pattern, say)
        self._delay_s = delay_s
        self._bytes_per_s = bytes_per_s

    def write(self, asked: Write) -> int:
        """Wait, then write."""
        start = time.monotonic()
        rate_s = len(asked.data) / self._bytes_per_s if self._bytes_per_s else 0.0
        time.sleep(self._delay_s + rate_s)
        taken = asked.put(asked.data)
        self.tell(asked, waited_s=time.monotonic() - start)
        return taken


class Torn(Struck):
    """Acknowledges everything and keeps the first `keep_bytes` bytes of each file."""

    def __init__(self, pattern: str, say: Say, keep_bytes: int) -> None:
        super().__init__(pattern, say)
        self._keep = keep_bytes

    def write(self, asked: Write) -> int:
        """Write what lies within the part that is kept; say that all of it was."""
        size = len(asked.data)
        kept = max(0, min(size, self._keep - asked.at))
        if kept == size:
            return asked.put(asked.data)
        taken = asked.put(asked.data[:kept]) if kept else 0
        asked.skip(size - taken)
        self.tell(asked, dropped=size - taken)
        return size


def _full(params: Mapping[str, Any], where: str, say: Say) -> Rule:
    return Failing(where, say, errno.ENOSPC, int(params["after_bytes"]))


def _broken(params: Mapping[str, Any], where: str, say: Say) -> Rule:
    return Failing(where, say, errno.EIO, int(params["after_bytes"]))


def _slow(params: Mapping[str, Any], where: str, say: Say) -> Rule:
    rate = params.get("bytes_per_s")
    return Slow(where, say, float(params["delay_s"]), None if rate is None else float(rate))


def _torn(params: Mapping[str, Any], where: str, say: Say) -> Rule:
    return Torn(where, say, int(params["keep_bytes"]))


RULES: Mapping[str, Callable[[Mapping[str, Any], str, Say], Rule]] = {
    "storage.enospc": _full,
    "storage.eio": _broken,
    "storage.slow": _slow,
    "storage.torn": _torn,
}


def writing(agent: Agent, armed: Armed) -> None:
    """Put the fault's rule in force in this process, until the fault ends."""
    # os.path.join: an absolute pattern stands for itself, another one starts at the job's folder.
    work = os.path.realpath(str(agent.config.get("work") or os.getcwd()))
    where = os.path.join(work, str(armed.params["path"]))
    hits = f"{agent.link.path}.{armed.id}.hits"
    rule = RULES[armed.name](armed.params, where, lambda line: append(hits, line))
    FILES.add(rule)

    def end() -> str:
        FILES.remove(rule)
        return f"writes to {where} are let through"

    if not lasting.hold(agent, armed, end):
        agent.report("failed", armed, "no thread could hold the fault", proven=False)
        return
    agent.report("fired", armed, f"stands before every write to {where}", where=where, hits=hits)


def append(hits: str, line: Mapping[str, Any]) -> None:
    """Append one line of proof to a file, in one write."""
    fd = os.open(hits, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, json.dumps(line).encode() + b"\n")
    finally:
        os.close(fd)
