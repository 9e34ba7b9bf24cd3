"""Which process holds which rank right now, followed from the events. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Ranks:
    """Follows a job. `holders`: rank -> pid; `ticks`: pid -> start time; `committed`: ranks that committed a
    step.

    Pids of agents' events are those inside the target's namespace; `inner` keeps them apart.
    """

    holders: dict[int, int] = field(default_factory=dict)
    ticks: dict[int, int] = field(default_factory=dict)
    inner: dict[int, tuple[int, int]] = field(default_factory=dict)
    committed: set[int] = field(default_factory=set)
    steps: int = 0
    first_commit_t: float | None = None

    def feed(self, event: dict[str, Any]) -> None:
        """Take in one event, in the order of the file."""
        rank, pid = event.get("rank"), event.get("pid")
        own = event.get("source") != "agent"
        match event.get("event"):
            case "worker.start":
                self._started(rank, pid, event.get("start_ticks"), own)
            case "worker.promoted" if own and isinstance(rank, int) and isinstance(pid, int):
                self.holders[rank] = pid
            case "generation.open":
                self._opened(event.get("members"))
            case "worker.exit" | "fence" if own:
                gone = [r for r, p in self.holders.items() if p == pid]
                for r in gone:
                    del self.holders[r]
            case "step.commit" if isinstance(rank, int):
                self.committed.add(rank)
                self.steps = max(self.steps, int(event.get("step") or 0) + 1)
                if self.first_commit_t is None:
                    self.first_commit_t = event.get("t")
                if own and event.get("source") == "recovery" and isinstance(pid, int):
                    self.holders[rank] = pid

    def _started(self, rank: Any, pid: Any, ticks: Any, own: bool) -> None:
        if not isinstance(pid, int):
            return
        if not own:
            if isinstance(rank, int) and isinstance(ticks, int):
                self.inner[rank] = (pid, ticks)
            return
        if isinstance(ticks, int):
            self.ticks[pid] = ticks
        if isinstance(rank, int):
            self.holders[rank] = pid

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
