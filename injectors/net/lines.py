"""A helper process of ours in a node's namespaces, spoken to in lines of JSON.

It ends when its stdin ends, so with the tool, however that dies. It carries the run's marker in its
environment and the fault's name in its arguments, by which the undo path finds it.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from injectors.marks import MARKER

START_S = 20.0


class HelperError(RuntimeError):
    """A helper refused, did not answer in time or is gone."""


class Helper:
    """One process. Safe to use from several threads: one question at a time."""

    def __init__(self, program: str, tag: str, run: str, start: dict[str, Any], fds: Sequence[int]) -> None:
        """Start it and wait until it is ready.

        Args:
            program: a file beside this one.
            tag: what it is found by.
            start: its first line.
            fds: descriptors that it inherits under the same numbers.

        Raises:
            HelperError: it refused; the message says what.
        """
        self._lock = threading.Lock()
        self._rest = b""
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name(program)), tag],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=list(fds),
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", MARKER: run},
            cwd="/",
            start_new_session=True,
        )
        try:
            self.ready = self._say(start, START_S)
        except HelperError:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, op: str, timeout_s: float, **fields: Any) -> Any:
        """Ask one question.

        Raises:
            HelperError: no answer within the time.
        """
        with self._lock:
            return self._say({"op": op, **fields}, timeout_s)["answer"]

    def close(self) -> None:
        """End it and wait until it is gone; may be repeated."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
        except OSError:
            # What was still to be written found no reader.
            pass
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _say(self, message: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise HelperError(f"the helper in the node is gone: {error}") from error
        said: dict[str, Any] = json.loads(self._line(timeout_s))
        if "refused" in said:
            raise HelperError(str(said["refused"]))
        return said

    def _line(self, timeout_s: float) -> bytes:
        assert self._process.stdout is not None
        until = time.monotonic() + timeout_s
        while b"\n" not in self._rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise HelperError(f"the helper in the node did not answer within {timeout_s:g} s")
            data = self._process.stdout.read1(1 << 16)  # type: ignore[attr-defined]
            if not data:
                raise HelperError("the helper in the node is gone")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line
