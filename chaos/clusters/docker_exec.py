"""A command in a container, followed by its process on this machine and ended through the daemon's word."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

from chaos.clusters import processes
from chaos.clusters.running import End, Running
from injectors.fault import Node

if TYPE_CHECKING:
    from docker import DockerClient

START_S = 10.0
# The kernel shows an end before the daemon has heard of it.
WORD_S = 10.0
ORPHAN_GRACE_S = 0.5


class Exec(Running):
    """One `exec` of the daemon's."""

    contained = True

    def __init__(self, client: DockerClient, exec_id: str, argv: list[str], node: Node) -> None:
        self._client, self._id, self._node = client, exec_id, node
        self._end: End | None = None
        self.argv = argv
        self.pid = self._wait_pid()
        try:
            self._fd = os.pidfd_open(self.pid)
        except (ProcessLookupError, ValueError, OSError):
            # It has ended already: a descriptor that is always readable says the same.
            self._fd = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        seen = processes.read(self.pid)
        self._ticks = seen.start_ticks if seen else -1

    def _inspect(self) -> dict[str, Any]:
        return dict(self._client.api.exec_inspect(self._id))

    def _wait_pid(self) -> int:
        limit = time.monotonic() + START_S
        while time.monotonic() < limit:
            found = self._inspect()
            if found["Pid"] or found["ExitCode"] is not None:
                return int(found["Pid"])
            time.sleep(0.005)
        return 0

    @property
    def end_fd(self) -> int:
        return self._fd

    def poll(self) -> End | None:
        if self._end is None and not processes.is_alive(self.pid, self._ticks):
            self._end = self._ask()
        return self._end

    def _ask(self) -> End:
        from docker.errors import DockerException

        limit = time.monotonic() + WORD_S
        while time.monotonic() < limit:
            try:
                found = self._inspect()
            except DockerException:
                break
            if not found["Running"] and found["ExitCode"] is not None:
                code = int(found["ExitCode"])
                # As a shell spells it; a container that is killed takes its commands with 137.
                return End(code) if code < 128 or code > 128 + signal.NSIG else End(None, code - 128)
            time.sleep(0.01)
        return End(None, int(signal.SIGKILL))

    def orphans(self) -> list[processes.Process]:
        limit = time.monotonic() + ORPHAN_GRACE_S
        inode = processes.namespace_of(self._node.pid)
        if inode is None:
            return []
        while True:
            left = [p for p in processes.in_namespace(inode) if p.pid not in (self._node.pid, self.pid)]
            if not left or time.monotonic() > limit:
                return left
            time.sleep(0.02)

    def stop(self) -> None:
        seen = processes.read(self.pid)
        if seen is not None and seen.start_ticks == self._ticks:
            processes.kill(seen)
            processes.wait_ended(self.pid, 2.0)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
