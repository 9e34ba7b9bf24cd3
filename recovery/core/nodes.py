"""What the coordinator knows of nodes, and two decisions: who must go, and where a rank is placed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum


class Standing(Enum):
    ABSENT = "absent"
    """No supervisor of it has a session; nothing of it can be running."""
    TRIAL = "trial"
    """It has a session, and has yet to show that it reaches the others: it gets no rank."""
    PRESENT = "present"


@dataclass(slots=True)
class Node:
    """One node and its session. Times are the coordinator's monotonic seconds."""

    index: int
    standing: Standing = Standing.ABSENT
    session: int = 0
    heard: float = 0.0
    dead_by: float = float("inf")
    """Without a further beat, nothing of it acts after this."""
    was_present: bool = False


def broken_links(reached: Mapping[int, frozenset[int]]) -> set[tuple[int, int]]:
    """Pairs of which one does not reach the other. Only nodes that have answered are judged."""
    return {
        (min(one, other), max(one, other))
        for one, peers in reached.items()
        for other in reached
        if other != one and other not in peers
    }


def to_keep(
    present: Iterable[int],
    trial: Iterable[int],
    links: set[tuple[int, int]],
    holding: Collection[int] = (),
) -> set[int]:
    """The nodes that all reach each other: from those that work, as many as go on; then whoever fits in.

    Whoever has most broken links goes first, of equals the one with the highest number: the coordinator's
    own node is number 0. But the last of the nodes in `holding`, those with state, stays.
    """
    kept = set(present)
    while True:
        broken = [node for link in links if set(link) <= kept for node in link]
        if not broken:
            break
        holders = kept & set(holding)
        spared = holders if len(holders) == 1 else set()
        kept.remove(max(set(broken) - spared, key=lambda node: (broken.count(node), node)))
    for node in sorted(trial):
        if not any(node in link and (set(link) - {node}) <= kept for link in links):
            kept.add(node)
    return kept


def place(
    home: int | None, load: Mapping[int, int], spare_on: set[int], limit: int | None
) -> tuple[int, bool] | None:
    """Where a rank gets its next process, and whether a spare takes it; None if there is no room.

    Args:
        home: the node that the rank was on; it is preferred, so that a crash moves nothing.
        load: ranks on each node that may take one.
        spare_on: nodes with a waiting spare.
        limit: ranks that a node may hold.
    """
    room = [node for node, ranks in load.items() if limit is None or ranks < limit]
    if home in room:
        return home, home in spare_on
    if not room:
        return None
    best = min(room, key=lambda node: (node not in spare_on, load[node], node))
    return best, best in spare_on
