"""A process of ours that shares the victim's device: started, asked how it does, found by its token, ended.

It is a session of its own, carries the run's marker and a token in its environment, ends when its standard
input does (so with the tool, however that ends) and in any case when its time is up.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from injectors import signals
from injectors.marks import MARKER, having

TOKEN = "TORCH_CHAOS_TENANT"
STAND_IN = "TORCH_CHAOS_STAND_IN_CUDA"
"""A folder with a stand-in for torch, for tests without a device: only the tenant imports it, and says so."""
PROGRAM = Path(__file__).with_name("co_tenant.py")
END_S = 5.0


@dataclass
class Tenant:
    """The starter's handle on one tenant."""

    process: subprocess.Popen[bytes]
    token: str
    said: bytes = b""

    def hear(self, timeout_s: float) -> dict[str, Any] | None:
        """The next line that it says; None if the time is up or it has ended."""
        assert self.process.stdout is not None
        limit = time.monotonic() + timeout_s
        fd = self.process.stdout.fileno()
        while b"\n" not in self.said:
            left = limit - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                return None
            data = os.read(fd, 4096)
            if not data:
                return None
            self.said += data
        line, _, self.said = self.said.partition(b"\n")
        found = json.loads(line)
        return found if isinstance(found, dict) else None

    def ask(self, timeout_s: float = 5.0) -> dict[str, Any] | None:
        """What it has done so far; None if it does not answer."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(b"look\n")
            self.process.stdin.flush()
        except OSError:
            return None
        return self.hear(timeout_s)

    def close(self) -> None:
        """Reap it and close its pipes; it has been ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        # Nothing is left in the buffer: every write is flushed, and one that failed was dropped with its
        # pipe.
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except OSError:
                pass


_STARTED: dict[str, Tenant] = {}
_LOCK = threading.Lock()


def start(token: str, uuid: str, run: str, arguments: list[str], limit_s: float) -> Tenant:
    """Start a tenant on a device.

    Args:
        token: what it is found by.
        uuid: of the device; the only one that it sees.
        run: the marker of the run that it belongs to; "" for none.
        arguments: the act and its parameters, as `co_tenant.py` takes them.
        limit_s: when it ends by itself.

    Raises:
        OSError: it could not be started.
    """
    env = {**os.environ, TOKEN: token, "CUDA_VISIBLE_DEVICES": uuid}
    if run:
        env[MARKER] = run
    if STAND_IN in env:
        env["PYTHONPATH"] = env[STAND_IN]
    process = subprocess.Popen(
        # -P: the folder of the program, with its `data.py` and the like, is no place to import from.
        [sys.executable, "-P", str(PROGRAM), *arguments, "--limit-s", str(limit_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=env,
    )
    tenant = Tenant(process, token)
    with _LOCK:
        _STARTED[token] = tenant
    return tenant


def started(token: str) -> Tenant | None:
    """The tenant of a token, if this process started it."""
    with _LOCK:
        return _STARTED.get(token)


def find(token: str) -> list[tuple[int, int]]:
    """(pid, start time) of the living processes that carry a token."""
    found = []
    for pid in having({TOKEN: token}):
        ticks = signals.start_ticks(pid)
        if ticks is not None and signals.is_alive(pid, ticks):
            found.append((pid, ticks))
    return found


def end(token: str) -> tuple[bool, str]:
    """SIGKILL every process with a token, until two looks in a row find none; may be repeated."""
    limit = time.monotonic() + END_S
    ended: set[int] = set()
    quiet = 0
    while quiet < 2 and time.monotonic() < limit:
        found = find(token)
        quiet = 0 if found else quiet + 1
        for pid, ticks in found:
            signals.send(pid, ticks, signal.SIGKILL)
            signals.wait_gone(pid, ticks, END_S)
            ended.add(pid)
    with _LOCK:
        tenant = _STARTED.pop(token, None)
    if tenant is not None:
        tenant.close()
    left = find(token)
    if left:
        return False, f"still there: {', '.join(str(pid) for pid, _ in left)}"
    return True, f"ended pid {', '.join(map(str, sorted(ended)))}" if ended else "it is gone"
