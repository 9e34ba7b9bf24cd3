"""The cluster of one start of a target, as the engine uses it: made, manned, looked after, removed."""

from __future__ import annotations

import os
import queue
import re
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.clusters import processes
from chaos.clusters.base import Cluster, Plot
from chaos.clusters.make import make_cluster
from chaos.errors import TargetFailed
from chaos.runner.context import Context
from chaos.runner.desk import Journal
from chaos.targets.base import Launch, Target
from chaos.targets.fleet import Crew, Fleet
from injectors.fault import Evidence, Node

TOKEN = "token"
# How long a thread that wants a node back waits for the main loop to do it.
BRING_BACK_S = 60.0


@dataclass
class Request:
    """A node that is to be brought back; `done` is set when `evidence` says how it went."""

    index: int
    done: threading.Event = field(default_factory=threading.Event)
    evidence: Evidence = field(default_factory=lambda: Evidence("the target ended first", False))


class Field:
    """Nodes with their launchers. For the engine's main thread, but for what faults ask.

    Args:
        context: the run.
        name: the scenario's name in the journal.
        spec: the plan's target.
        nodes: rank -> node, as last seen; read at each question.
        folder: where logs go.
        readable: folders that a node must see.
        wake: wakes the main loop.
    """

    def __init__(
        self,
        context: Context,
        name: str,
        spec: dict[str, Any],
        nodes: dict[int, int],
        folder: Path,
        readable: tuple[Path, ...],
        wake: Callable[[], None],
    ) -> None:
        self.run = context.run
        self._journal: Journal = context.journal
        self._key = f"{name}/cluster"
        self._nodes, self._folder, self._wake = nodes, folder, wake
        size = spec["cluster"]["nodes"]
        self._per_node = spec["world"] // size
        self._token = context.sub("secret", name) / TOKEN
        plot = Plot(
            context.run,
            # Of two scenarios whose names differ in other signs only, the name must differ too.
            f"{re.sub('[^a-z0-9]+', '-', name.lower())[:30]}-{secrets.token_hex(3)}",
            size,
            spec["cluster"].get("image") or "",
            (context.temp, folder.resolve()),
            readable,
        )
        self.cluster: Cluster = make_cluster(spec["cluster"], plot)
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._over = False
        self._fleet: Fleet | None = None

    # -- its life

    def open(self) -> None:
        """Make the nodes; what removes them is in the journal before.

        Raises:
            TargetFailed: they cannot be made.
        """
        fd = os.open(self._token, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(secrets.token_hex(32))
        record = self.cluster.undo_record()
        if record is not None:
            self._journal.undo(self._key, record.as_dict())
        self.cluster.open()

    def man(self, target: Target, launch: Launch, environment: Callable[[int], dict[str, str]]) -> Fleet:
        """Start the job: its launcher on each node."""
        crew = Crew(
            target,
            self.cluster,
            launch,
            self._per_node,
            self.cluster.port(),
            self._token,
            lambda index: {**environment(index), **self.cluster.environment(index)},
            self.logs,
        )
        self._fleet = Fleet(crew)
        return self._fleet

    def logs(self, index: int) -> tuple[Path, Path]:
        """A node's output. Node 0's, whose exit code is the job's, is called as one host's is."""
        prefix = f"node{index}." if index else ""
        return self._folder / f"{prefix}stdout.log", self._folder / f"{prefix}stderr.log"

    def close(self) -> list[str]:
        """Remove the nodes; returns what is left of them."""
        self._over = True
        self.serve()
        left = [*self.cluster.destroy(), *self.cluster.left()]
        if not left and self.cluster.undo_record() is not None:
            self._journal.undone(self._key, "engine")
        self._token.unlink(missing_ok=True)
        return left

    # -- what faults ask

    def all(self) -> tuple[Node, ...]:
        """Every node as it is now."""
        return tuple(self.cluster.nodes)

    def node_of(self, rank: int) -> int | None:
        """The node that a rank is on: where it was last seen, at first where it was started."""
        return int(self._nodes.get(rank, rank // self._per_node))

    def ranks_on(self, index: int) -> list[int]:
        """The ranks on a node."""
        world = self._per_node * len(self.cluster.nodes)
        return [rank for rank in range(world) if self.node_of(rank) == index]

    def bring_back(self, index: int) -> Evidence:
        """Have the main loop bring a node back; from any other thread."""
        request = Request(index)
        self._requests.put(request)
        self._wake()
        if not request.done.wait(BRING_BACK_S):
            return Evidence(f"node {index} was not brought back within {BRING_BACK_S:g} s", False)
        return request.evidence

    def serve(self) -> None:
        """Do what threads have asked for."""
        while True:
            try:
                request = self._requests.get_nowait()
            except queue.Empty:
                return
            if not self._over:
                request.evidence = self._bring_back(request.index)
            request.done.set()

    def _bring_back(self, index: int) -> Evidence:
        assert self._fleet is not None
        node = self.cluster.nodes[index]
        told = []
        try:
            if not processes.is_alive(node.pid, node.start_ticks):
                node = self.cluster.revive(index)
                told.append("its namespaces were gone and are made anew")
            if self._fleet.launcher(index).poll() is None:
                told.append("its launcher still runs")
            else:
                self._fleet.start(index)
                told.append("its launcher is started again")
        except TargetFailed as error:
            return Evidence(f"{node.name} could not be brought back: {error.message}", False)
        node = self.cluster.nodes[index]
        return Evidence(
            f"{node.name} is back: {', '.join(told)}",
            True,
            data={
                "node": index,
                "holder": [node.pid, node.start_ticks],
                "launcher": [node.launcher, node.launcher_ticks],
            },
        )
