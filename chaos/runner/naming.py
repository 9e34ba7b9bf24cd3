"""Gives the processes in a job's events the pids that the engine knows them by. Pure.

A target in pid namespaces of its own names its processes by pids that mean nothing outside, and the same ones
on each node; a node that returns gives them out again. Together with its node and its start time a process is
named for good. One that the engine never saw gets a number above all real pids, so that it is at least no
other one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Event = dict[str, Any]
Inner = tuple[int | None, int, int | None]
"""Node (None without a cluster), pid in there, start time in ticks since boot."""
# The kernel's highest pid is 2**22.
UNSEEN = 2**22


@dataclass
class Names:
    """Takes events in the order of time.

    Args:
        known: the pid out here of each process that the engine has seen.
        own_pids: each node has pids of its own, so every pid in the target's events is translated; otherwise
            only agents' events are, and only where the process is known.
    """

    known: Mapping[Inner, int]
    own_pids: bool = False
    _ticks: dict[tuple[int | None, int], int] = field(default_factory=dict)
    _holders: dict[int, tuple[int | None, int]] = field(default_factory=dict)
    _unseen: dict[Inner, int] = field(default_factory=dict)

    def renamed(self, event: Event) -> Event:
        """The event, with the pids that the engine knows."""
        source, pid, node = event.get("source"), event.get("pid"), event.get("node")
        if source not in (("agent", "recovery") if self.own_pids else ("agent",)):
            return event
        if not isinstance(pid, int):
            return event
        self._learn(event, pid, node)
        rank = event.get("rank")
        out = self._outer(self._place(rank, pid, node))
        changed = event if out in (None, pid) else {**event, "pid": out, "ns_pid": pid}
        members = event.get("members")
        if self.own_pids and isinstance(members, list):
            changed = {**changed, "members": [self._member(member, node) for member in members]}
        return changed

    def _learn(self, event: Event, pid: int, node: int | None) -> None:
        if event.get("event") == "worker.start" and isinstance(event.get("start_ticks"), int):
            self._ticks[node, pid] = event["start_ticks"]
        if event.get("event") in ("worker.start", "worker.promoted") and isinstance(event.get("rank"), int):
            self._holders[event["rank"]] = (node, pid)

    def _place(self, rank: Any, pid: int, node: int | None) -> tuple[int | None, int]:
        """Where a pid is from: a coordinator also tells of processes on other nodes."""
        holder = self._holders.get(rank) if isinstance(rank, int) else None
        return holder if holder is not None and holder[1] == pid else (node, pid)

    def _member(self, member: Any, node: int | None) -> Any:
        if not isinstance(member, dict) or not isinstance(member.get("pid"), int):
            return member
        return {**member, "pid": self._outer(self._place(member.get("rank"), member["pid"], node))}

    def _outer(self, place: tuple[int | None, int]) -> int | None:
        node, pid = place
        inner = (node, pid, self._ticks.get(place))
        found = self.known.get(inner)
        if found is None and inner[2] is None:
            found = next((out for (n, p, _), out in self.known.items() if (n, p) == place), None)
        if found is None and self.own_pids:
            found = self._unseen.setdefault(inner, UNSEEN + 1 + len(self._unseen))
        return found
