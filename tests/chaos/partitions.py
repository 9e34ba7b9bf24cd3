"""A right history of a job on nodes, one rank a node, that loses the node of rank 1 to a partition."""

from __future__ import annotations

from typing import Any

from tests.chaos.histories import Events, Job


def cut_off(aimed: int = 1, pairs: tuple[str, ...] = ("0>1", "1>0", "1>2", "2>1")) -> tuple[Job, Events]:
    """The job, and its events as a runtime on nodes writes them. `pairs`: the ways that the fault cut."""
    job = Job(3).steps(1).kill(1, name="net.partition", kind="node_lost").finish()
    told = "node 1: not heard from for 2.0 s, its lease is over; ranks 1"
    events: Events = [{"t": 0.0, "event": "node.joined", "source": "recovery", "about": n} for n in range(3)]
    for event in job.events:
        name, new = str(event["event"]), dict(event)
        if name == "worker.start":
            # What takes the place of rank 1 runs on a node that is left.
            new["node"] = new["rank"] if new["pid"] < 103 else 0
        if name.startswith("fault."):
            # The engine's own process: a node has none.
            new |= {"pid": 1, "rank": aimed, "node": aimed, "nodes": [aimed], "ranks": [aimed]}
        if name == "fault.fired":
            new["evidence"] = {"what": "fired", "proven": True, "data": {"pairs": list(pairs)}}
        if name == "recovery.detect":
            events.append({**event, "event": "node.lost", "about": 1, "reason": told, "node": 0})
            new |= {"rank": None, "detail": told, "lost_node": 1}
        if name == "recovery.done":
            new["causes"] = [{"rank": None, "kind": "node_lost", "detail": told}]
        events.append(new)
    return job, events


def without_word_of(events: Events, name: str) -> list[dict[str, Any]]:
    """The same without one kind of event."""
    return [event for event in events if event["event"] != name]
