"""A target on a cluster: one launcher on each node, seen as the one job that it is.

The job's exit code is node 0's. Launchers that go on after it count as left behind. A launcher that was ended
together with its node is no end of the job, unless it was the last one.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.clusters import processes
from chaos.clusters.base import Cluster
from chaos.targets.base import End, Launch, Post, Running, Target

# Node 0 may tell the others that the job is over just before it ends itself, or just after.
OTHERS_S = 5.0
TICK_S = 0.05


@dataclass(frozen=True)
class Crew:
    """What every launcher of a job has in common.

    Attributes:
        target: what is started.
        cluster: where.
        launch: how; `environment` and `logs` say what differs between nodes.
        per_node: ranks on each node.
        port: node 0's, for the rendezvous.
        token: the job's secret.
        environment: a node's complete environment.
        logs: where a node's output goes: paths of stdout and stderr.
    """

    target: Target
    cluster: Cluster
    launch: Launch
    per_node: int
    port: int
    token: Path
    environment: Callable[[int], dict[str, str]]
    logs: Callable[[int], tuple[Path, Path]]

    def start(self, index: int) -> Running:
        """Start the launcher of one node; its output goes on where an earlier one's ended.

        Raises:
            TargetFailed: it could not be started.
        """
        nodes = self.cluster.nodes
        post = Post(self.cluster, index, len(nodes), self.per_node, nodes[0].address, self.port, self.token)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        out, err = (os.open(path, flags, 0o644) for path in self.logs(index))
        try:
            env = self.environment(index)
            running = self.target.start_on(post, replace(self.launch, env=env, stdout=out, stderr=err))
        finally:
            os.close(out)
            os.close(err)
        seen = processes.read(running.pid)
        self.cluster.set_launcher(index, running.pid, seen.start_ticks if seen else 0)
        return running


class Fleet(Running):
    """The launchers of one job. Use from one thread."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._launchers: dict[int, Running] = {}
        self._poll = select.epoll()
        self._watched: dict[int, int] = {}
        self._ended_t: float | None = None
        try:
            for index in range(len(crew.cluster.nodes)):
                self.start(index)
        except BaseException:
            self.stop()
            raise
        self.contained = all(getattr(running, "contained", True) for running in self._launchers.values())

    def start(self, index: int) -> Running:
        """Start a node's launcher, at first or again. An earlier one must have ended.

        Raises:
            TargetFailed: it could not be started.
        """
        before = self._launchers.pop(index, None)
        if before is not None:
            self._unwatch(index)
            before.stop()
        running = self._crew.start(index)
        self._launchers[index] = running
        self._watched[index] = os.dup(running.end_fd)
        self._poll.register(self._watched[index], select.EPOLLIN)
        if index == 0:
            self.pid, self.argv = running.pid, running.argv
        return running

    def launcher(self, index: int) -> Running:
        """A node's launcher."""
        return self._launchers[index]

    @property
    def end_fd(self) -> int:
        return self._poll.fileno()

    def poll(self) -> End | None:
        ends = {index: running.poll() for index, running in self._launchers.items()}
        for index, end in ends.items():
            if end is not None:
                self._unwatch(index)
        first = ends.get(0)
        if first is None:
            return None
        if all(end is not None for end in ends.values()):
            return first
        # Node 0 may have been unplugged: what the others make of it is theirs to say, until they end.
        if first.signal is not None:
            return None
        self._ended_t = self._ended_t or time.monotonic()
        return first if time.monotonic() - self._ended_t > OTHERS_S else None

    def _unwatch(self, index: int) -> None:
        fd = self._watched.pop(index, None)
        if fd is not None:
            self._poll.unregister(fd)
            os.close(fd)

    def orphans(self) -> list[processes.Process]:
        # A fault that was only now undone may have kept a launcher from hearing that the job is over.
        limit = time.monotonic() + OTHERS_S
        while (
            late := [r for r in self._launchers.values() if r.poll() is None]
        ) and time.monotonic() < limit:
            select.select([running.end_fd for running in late], [], [], TICK_S)
        left = []
        for running in self._launchers.values():
            own = processes.read(running.pid)
            if running.poll() is None and own is not None:
                left.append(own)
            left += running.orphans()
        return left

    def stop(self) -> None:
        for index in list(self._watched):
            self._unwatch(index)
        for running in self._launchers.values():
            running.stop()
        if not self._poll.closed:
            self._poll.close()
