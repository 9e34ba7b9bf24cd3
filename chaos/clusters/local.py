"""Cluster `local`: every node is this host. Jobs of several launchers run on it; nothing can be unplugged."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from chaos.clusters import contained
from chaos.clusters.base import Ability, Cluster, Output
from chaos.clusters.running import Running
from chaos.errors import TargetFailed
from injectors.fault import Node, UndoRecord

ADDRESS = "127.0.0.1"


def probe() -> Ability:
    """Always works."""
    return Ability(True, "processes of this host; nodes share its network, so none can be cut off")


class LocalCluster(Cluster):
    """Processes of this host, told apart by the run's marker."""

    kind: ClassVar[str] = "local"
    own_network: ClassVar[bool] = False

    def undo_record(self) -> UndoRecord | None:
        return None

    def open(self) -> None:
        self.nodes = [
            Node(index=index, name=f"node{index}", kind=self.kind, address=ADDRESS)
            for index in range(self.plot.nodes)
        ]

    def start(
        self, index: int, argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, output: Output
    ) -> Running:
        return contained.start(argv, env, cwd, output)

    def revive(self, index: int) -> Node:
        raise TargetFailed("a node of a local cluster is this host", "use a cluster of kind netns or docker")

    def destroy(self) -> list[str]:
        self.nodes = []
        return []

    def port(self) -> int:
        # Free now; that nothing else takes it until the job does cannot be promised on a shared host.
        with socket.socket() as probe_socket:
            probe_socket.bind((ADDRESS, 0))
            return int(probe_socket.getsockname()[1])
