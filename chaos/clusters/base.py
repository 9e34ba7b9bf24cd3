"""What a cluster is: nodes that a job's parts are started on, that can be cut off from each other and killed.

One interface, one file for each kind. The order is fixed, and the engine keeps it: `undo_record` is
journalled, then `open`, then `start` for each node, at last `destroy`. A cluster belongs to one start of one
target; everything that it creates carries the run's marker and its own name.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from chaos.clusters.running import Running
from injectors.fault import Node, UndoRecord

# Its nodes have a network of their own, so the port is always free; torchrun's own default.
PORT = 29500


@dataclass(frozen=True)
class Ability:
    """Whether a kind of cluster works here. `detail`: how, or what is missing; `mend`: how to get it."""

    works: bool
    detail: str
    mend: str = ""


@dataclass(frozen=True)
class Plot:
    """What a cluster is made for.

    Attributes:
        run: the run's marker.
        name: unique among the run's clusters, letters, digits and `-`.
        nodes: how many.
        image: docker: the image that the user named, "" for one made from this host.
        writable: folders that every node must be able to write to, under the same path as here.
        readable: further folders that it must be able to read.
    """

    run: str
    name: str
    nodes: int
    image: str = ""
    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Output:
    """Open files that a command writes to; each has a path, which must be writable in a node."""

    stdout: int
    stderr: int


class Cluster(ABC):
    """Nodes. Constructing does nothing; `open` makes them."""

    kind: ClassVar[str]
    own_network: ClassVar[bool] = True
    """False: all nodes share this host's network and processes, so none can be cut off or unplugged."""
    own_pids: ClassVar[bool] = False
    """True: processes on a node name each other by pids of their own namespace."""

    def __init__(self, plot: Plot) -> None:
        self.plot = plot
        self.nodes: list[Node] = []

    @abstractmethod
    def undo_record(self) -> UndoRecord | None:
        """What removes all of it, written to the journal before `open`; None if nothing needs to be."""

    @abstractmethod
    def open(self) -> None:
        """Make every node.

        Raises:
            TargetFailed: it could not be made. What was made so far is gone again.
        """

    @abstractmethod
    def start(
        self, index: int, argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, output: Output
    ) -> Running:
        """Start a command on a node; called from the engine's main thread.

        Raises:
            TargetFailed: it could not be started.
        """

    @abstractmethod
    def revive(self, index: int) -> Node:
        """Bring a node back that was killed, under its old name and address; nothing runs on it yet.

        Raises:
            TargetFailed: it could not be made.
        """

    @abstractmethod
    def destroy(self) -> list[str]:
        """Remove every node and whatever runs on it; returns what could not be removed. May be repeated."""

    def left(self) -> list[str]:
        """What is there of this cluster after `destroy`: containers, networks, namespaces."""
        return []

    def environment(self, index: int) -> dict[str, str]:
        """What a job must be told of a node's network."""
        name = self.nodes[index].interface
        # Both look the host's own name up otherwise, which means nothing in here.
        return {"GLOO_SOCKET_IFNAME": name, "NCCL_SOCKET_IFNAME": name} if name else {}

    @property
    def python(self) -> str:
        """The interpreter on a node."""
        return sys.executable

    def program(self, name: str, found: str) -> str:
        """A command's program on a node: as it was found here, or by its name in an image of the user's."""
        return found

    def port(self) -> int:
        """A port on node 0 for the job's rendezvous."""
        return PORT

    def namespaces(self, index: int) -> list[int]:
        """Descriptors of the namespaces that a process has to enter, in this order, to be on a node.

        The caller closes them. Empty where a process needs to enter none, or cannot.
        """
        return []

    def processes_of(self, index: int) -> list[int]:
        """Every process on a node, its holder excluded, in the engine's pid namespace."""
        return []

    def set_launcher(self, index: int, pid: int, start_ticks: int) -> None:
        """Remember which process is a node's supervisor or command."""
        self.nodes[index] = replace(self.nodes[index], launcher=pid, launcher_ticks=start_ticks)


def close_all(fds: Sequence[int]) -> None:
    """Close descriptors."""
    for fd in fds:
        os.close(fd)
