"""End a whole node at once: every process on it, and its network with them."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from typing import Any

from injectors import signals
from injectors.cluster import daemon, undoing
from injectors.fault import Evidence, FaultError, Mechanism, Node, Place
from injectors.net import dockernet, space
from injectors.process.ending import PIDFD

MECHANISMS = (
    Mechanism(
        name="SIGKILL to all of a node",
        fidelity="all its processes and its network at once; the kernel of the host lives on",
        probe=PIDFD.probe,
    ),
    Mechanism(
        name="docker kill",
        fidelity="the same, by the daemon, where nodes are containers",
        probe=dockernet.missing,
    ),
)
GONE_S = 10.0
LOCAL = (
    "{name} is this host: its processes and its network are everybody's\n"
    "  mend: node faults need target.cluster.kind netns or docker"
)


def aimed(place: Place) -> list[Node]:
    """The nodes that are meant.

    Raises:
        FaultError: one of them cannot be ended on its own.
    """
    found = [node for node in place.nodes if node.index in place.aimed]
    for node in found:
        if node.kind == "local" or not node.pid:
            raise FaultError(LOCAL.format(name=node.name))
        if os.stat("/proc/self/ns/net").st_ino == _network(node):
            raise FaultError(f"{node.name} has no network of its own: it is this host's")
    return found


def _network(node: Node) -> int | None:
    """The inode of a node's network namespace; None if the node is gone."""
    if not signals.is_alive(node.pid, node.start_ticks):
        return None
    try:
        return os.stat(f"/proc/{node.pid}/ns/net").st_ino
    except OSError:
        return None


def end(node: Node) -> dict[str, Any] | None:
    """End a node; what was there, or None if nothing was."""
    inode = _network(node)
    if inode is None:
        return None
    there = [(pid, signals.start_ticks(pid)) for pid in undoing.in_network(inode)]
    found = {
        "node": node.index,
        "network": inode,
        "processes": [[pid, ticks] for pid, ticks in there if ticks is not None],
        "container": node.container or None,
        "heard": _silence(node),
    }
    if node.container:
        with closing(daemon.client(node.daemon)) as client:
            client.api.kill(node.container)
    else:
        _end_all(inode, node)
    return found


def _silence(node: Node) -> str:
    """Take the node's network down first: a machine without power closes no connection.

    Returns why that could not be done, empty where it was: peers may then hear the kernel say goodbye.
    """
    try:
        where = space.standing(space.of(node))
        space.run(where, ["ip", "link", "set", "dev", node.interface, "down"])
    except (space.SpaceError, FaultError) as error:
        return str(error)
    return ""


def _end_all(inode: int, node: Node) -> None:
    """Kill what is in the namespace until nothing is: a process may fork while it is looked for."""
    limit = time.monotonic() + GONE_S
    while time.monotonic() < limit:
        left = undoing.in_network(inode)
        if not left:
            return
        # The holder goes last: with it the namespace, by which the others are found, would go.
        for pid in [pid for pid in left if pid != node.pid] or left:
            ticks = signals.start_ticks(pid)
            if ticks is not None:
                signals.send(pid, ticks, signal.SIGKILL)
        time.sleep(0.001)


def gone(ended: list[dict[str, Any]]) -> Evidence:
    """Whether nothing of the nodes runs any more, as the kernel and the daemon see it."""
    if not ended:
        return Evidence("no node was ended", False)
    limit = time.monotonic() + GONE_S
    while True:
        left = [
            pid for one in ended for pid, ticks in one["processes"] if signals.is_alive(int(pid), int(ticks))
        ]
        left += [pid for one in ended for pid in undoing.in_network(int(one["network"]))]
        if not left or time.monotonic() > limit:
            break
        time.sleep(0.005)
    count = sum(len(one["processes"]) for one in ended)
    names = ", ".join(f"node{one['node']}" for one in ended)
    if left:
        return Evidence(f"of {names} {len(left)} processes still run: {sorted(set(left))[:5]}", False)
    what = f"{count} processes of {names} have ended, and no process is in its network any more"
    return Evidence(what, True, data={"ended": ended})
