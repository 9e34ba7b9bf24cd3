"""A command on this host, or in a node's namespaces on this host, of which nothing outlives the tool.

It runs in a user and PID namespace of its own. Where the kernel refuses that, it runs in a session of its own
and is found by the run's marker instead, which a program can scrub from its environment: `contained` says
which of the two it was.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos.clusters import contain, processes
from chaos.clusters.base import Output
from chaos.clusters.running import End, Running
from chaos.errors import TargetFailed

# How long a process may take to end after the main one did before it counts as left behind.
ORPHAN_GRACE_S = 0.5
START_S = 10.0
STOP_S = 2.0


def start(
    line: Sequence[str],
    env: Mapping[str, str],
    cwd: Path | None,
    output: Output,
    namespaces: Sequence[int] = (),
) -> Running:
    """Start a command.

    Args:
        line: the command line.
        env: its complete environment.
        cwd: where it runs, None for the current folder.
        output: where it writes to.
        namespaces: descriptors of namespaces to enter first.

    Raises:
        TargetFailed: it could not be started.
    """
    found = Contained.start(list(line), env, cwd, output, namespaces)
    return found if found is not None else Loose(list(line), env, cwd, output, namespaces)


def _wrapper(status: str, hold: str, namespaces: Sequence[int]) -> list[str]:
    listed = ",".join(map(str, namespaces)) or "-"
    return [sys.executable, "-I", "-S", contain.__file__, status, hold, listed]


class Contained(Running):
    """In its own namespaces, under an init of ours."""

    contained = True

    def __init__(self, launcher: subprocess.Popen[bytes], status: int, hold: int, argv: list[str]) -> None:
        self._launcher, self._status, self._hold = launcher, status, hold
        self._text = b""
        self._messages: list[dict[str, Any]] = []
        self._stopped = False
        self._end: End | None = None
        self.init = 0
        self.pid = launcher.pid
        self.argv = argv

    @classmethod
    def start(
        cls,
        line: list[str],
        env: Mapping[str, str],
        cwd: Path | None,
        output: Output,
        namespaces: Sequence[int],
    ) -> Contained | None:
        """Start it; None if the kernel refuses the namespaces."""
        status_read, status_write = os.pipe()
        hold_read, hold_write = os.pipe()
        try:
            launcher = subprocess.Popen(
                [*_wrapper(str(status_write), str(hold_read), namespaces), *line],
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output.stdout,
                stderr=output.stderr,
                start_new_session=True,
                pass_fds=(status_write, hold_read, *namespaces),
            )
        except OSError as error:
            os.close(status_read)
            os.close(hold_write)
            raise TargetFailed(f"the target could not be started: {error}", "see the error") from None
        finally:
            os.close(status_write)
            os.close(hold_read)
        running = cls(launcher, status_read, hold_write, line)
        if running._wait_for_init():
            return running
        running.stop()
        return None

    def _wait_for_init(self) -> bool:
        limit = time.monotonic() + START_S
        while time.monotonic() < limit:
            self._receive(wait_s=0.2)
            if any("refused" in message for message in self._messages):
                return False
            for message in self._messages:
                if "init" in message:
                    self.init = int(message["init"])
                    self.pid = self._main_pid()
                    return True
        raise TargetFailed("the target's namespace did not come up within 10 s", "see `torch-chaos doctor`")

    def _main_pid(self) -> int:
        # The command is the init's first child; it may already have ended.
        limit = time.monotonic() + 1.0
        while time.monotonic() < limit:
            children = [p for p in processes.descendants(self.init) if p.ppid == self.init]
            if children:
                return children[0].pid
            self._receive(wait_s=0.0)
            if any("code" in message for message in self._messages):
                break
            time.sleep(0.002)
        return self.init

    def _receive(self, wait_s: float) -> None:
        if not select.select([self._status], [], [], wait_s)[0]:
            return
        data = os.read(self._status, 4096)
        self._text += data
        *lines, self._text = self._text.split(b"\n")
        self._messages += [json.loads(line) for line in lines]
        if not data and self._end is None:
            # The init is gone without a word: killed from outside, and everything with it.
            self._end = End(None, 9)

    @property
    def end_fd(self) -> int:
        return self._status

    def poll(self) -> End | None:
        if self._end is None and not self._stopped:
            self._receive(wait_s=0.0)
            for message in self._messages:
                if "code" in message:
                    self._end = End(message["code"], message["signal"])
        return self._end

    def orphans(self) -> list[processes.Process]:
        inode = processes.namespace_of(self.init)
        if inode is None or self._stopped:
            return []
        limit = time.monotonic() + ORPHAN_GRACE_S
        while True:
            left = [p for p in processes.in_namespace(inode) if p.pid != self.init]
            if not left or time.monotonic() > limit:
                return left
            time.sleep(0.02)

    def stop(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        os.close(self._hold)
        init = processes.read(self.init) if self.init else None
        if init is not None:
            processes.kill(init)
        try:
            self._launcher.wait(2.0)
        except subprocess.TimeoutExpired:
            self._launcher.kill()
            self._launcher.wait()
        os.close(self._status)


class Loose(Running):
    """In a session of its own, where no further namespace can be had."""

    contained = False

    def __init__(
        self,
        line: list[str],
        env: Mapping[str, str],
        cwd: Path | None,
        output: Output,
        namespaces: Sequence[int] = (),
    ) -> None:
        self._run = env.get(processes.MARKER, "")
        # On a cluster the run has other commands, on other nodes, that are not this one's.
        self._node = env.get(processes.NODE)
        self._before = {(p.pid, p.start_ticks) for p in processes.marked(self._run)} if self._run else set()
        try:
            self._process = subprocess.Popen(
                [*_wrapper("-", "-", namespaces), *line] if namespaces else line,
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output.stdout,
                stderr=output.stderr,
                start_new_session=True,
                pass_fds=tuple(namespaces),
            )
        except OSError as error:
            raise TargetFailed(f"{line[0]}: {error.strerror}", "check the command") from None
        self.pid = self._process.pid
        self.argv = line
        self._pidfd = os.pidfd_open(self.pid)
        fcntl.fcntl(self._pidfd, fcntl.F_SETFD, fcntl.FD_CLOEXEC)

    @property
    def end_fd(self) -> int:
        return self._pidfd

    def poll(self) -> End | None:
        code = self._process.poll()
        if code is None:
            return None
        return End(code) if code >= 0 else End(None, -code)

    def _left(self) -> list[processes.Process]:
        if not self._run:
            return []
        left = [p for p in processes.marked(self._run) if (p.pid, p.start_ticks) not in self._before]
        return [p for p in left if self._node is None or processes.node_of(p.pid) == int(self._node)]

    def orphans(self) -> list[processes.Process]:
        limit = time.monotonic() + ORPHAN_GRACE_S
        while (left := self._left()) and time.monotonic() < limit:
            time.sleep(0.02)
        return left

    def stop(self) -> None:
        processes.kill_all(self._left, STOP_S)
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
