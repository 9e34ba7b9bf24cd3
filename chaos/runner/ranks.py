"""Which process holds which rank right now, followed from the events. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Ranks:
    """Follows a job.

    Attributes:
        holders: rank -> pid, as the job's own processes name themselves.
        ticks: (node, pid) -> start time; node is None without a cluster.
        inner: rank -> (pid, start time) as agents of a strange target name themselves, in its pid namespace.
        nodes: rank -> the node that it was last seen on.
        committed: ranks that committed a step.
        own_pids: each node has pids of its own, so one that does not come with its node names nobody.
    """

    own_pids: bool = False
    holders: dict[int, int] = field(default_factory=dict)
    ticks: dict[tuple[int | None, int], int] = field(default_factory=dict)
    inner: dict[int, tuple[int, int]] = field(default_factory=dict)
    nodes: dict[int, int] = field(default_factory=dict)
    committed: set[int] = field(default_factory=set)
    steps: int = 0
    first_commit_t: float | None = None

    def feed(self, event: dict[str, Any]) -> None:
        """Take in one event, in the order of the file."""
        rank, pid, node = event.get("rank"), event.get("pid"), event.get("node")
        own = event.get("source") != "agent"
        match event.get("event"):
            case "worker.start":
                self._started(rank, pid, event.get("start_ticks"), own, node)
            case "worker.promoted" if own and isinstance(rank, int) and isinstance(pid, int):
                self._holds(rank, pid, node)
            case "generation.open" if not self.own_pids:
                self._opened(event.get("members"))
            case "generation.formed" if own and isinstance(rank, int) and isinstance(pid, int):
                self._holds(rank, pid, node)
            case "worker.exit" | "fence" if own:
                gone = [r for r, p in self.holders.items() if p == pid and node in (None, self.nodes.get(r))]
                for r in gone:
                    del self.holders[r]
            case "step.commit" if isinstance(rank, int):
                self.committed.add(rank)
                self.steps = max(self.steps, int(event.get("step") or 0) + 1)
                if self.first_commit_t is None:
                    self.first_commit_t = event.get("t")
                if own and event.get("source") == "recovery" and isinstance(pid, int):
                    self._holds(rank, pid, node)

    def _holds(self, rank: int, pid: int, node: Any) -> None:
        self.holders[rank] = pid
        if isinstance(node, int):
            self.nodes[rank] = node

    def _started(self, rank: Any, pid: Any, ticks: Any, own: bool, node: Any) -> None:
        if not isinstance(pid, int):
            return
        if not own:
            if isinstance(rank, int) and isinstance(ticks, int):
                self.inner[rank] = (pid, ticks)
                if isinstance(node, int):
                    self.nodes[rank] = node
            return
        if isinstance(ticks, int):
            self.ticks[node, pid] = ticks
        if isinstance(rank, int):
            self._holds(rank, pid, node)

    def _opened(self, members: Any) -> None:
        if not isinstance(members, list):
            return
        for member in members:
            if (
                isinstance(member, dict)
                and isinstance(member.get("rank"), int)
                and isinstance(member.get("pid"), int)
            ):
                self.holders[member["rank"]] = member["pid"]
