"""The nodes of a running job: its ranks by the network that they are in, if that is not this machine's own.

Containers and network namespaces alike: a node is a network namespace with ranks in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chaos.attach.job import Job, Seen
from injectors.cluster import daemon
from injectors.fault import Evidence, Node
from injectors.net import space
from injectors.net.space import Space, SpaceError

CONTAINER = re.compile(r"docker[/-]([0-9a-f]{64})")
SHARED = (
    "{ranks} share the network of this machine with everything else on it\n"
    "  mend: run each node of the job in a container or a network namespace of its own"
)
ALONE = "all its ranks on this machine are in one network, so it has no second node to be cut off from"


@dataclass
class FoundNodes:
    """What the desk needs to know of nodes. `nodes` are empty where the job has none of its own."""

    run: str
    nodes: tuple[Node, ...]
    ranks: Mapping[int, tuple[int, ...]]
    """Node -> its ranks."""
    why_not: str = ""

    def all(self) -> tuple[Node, ...]:
        return self.nodes

    def node_of(self, rank: int) -> int | None:
        return next((node for node, ranks in self.ranks.items() if rank in ranks), None)

    def ranks_on(self, index: int) -> list[int]:
        return list(self.ranks.get(index, ()))

    def bring_back(self, index: int) -> Evidence:
        return Evidence(f"node {index} was started by somebody else, who alone can bring it back", False)


def grouped(job: Job) -> dict[int, tuple[int, ...]]:
    """The ranks of each network, by its inode, in the order of the lowest rank. Pure."""
    found: dict[int, tuple[int, ...]] = {}
    for number, rank in job.ranks.items():
        found[rank.net] = (*found.get(rank.net, ()), number)
    return found


def look(job: Job) -> FoundNodes:
    """The nodes of a job. Enters the namespaces to read their addresses, and changes nothing."""
    by_network = grouped(job)
    ranks = dict(enumerate(by_network.values()))
    here = space.inode("self", "net") or 0
    if shared := by_network.get(here, by_network.get(0)):
        who = "all ranks" if len(by_network) == 1 else f"ranks {', '.join(map(str, shared))}"
        return FoundNodes("", (), ranks, SHARED.format(ranks=who))
    if len(by_network) == 1:
        return FoundNodes("", (), ranks, ALONE)
    try:
        nodes = tuple(
            _node(index, net, job, job.ranks[numbers[0]])
            for index, (net, numbers) in enumerate(by_network.items())
        )
    except SpaceError as error:
        why = f"the networks of its nodes can't be entered: {error}\n  mend: run as root"
        return FoundNodes("", (), ranks, why)
    return FoundNodes("", nodes, ranks)


def _node(index: int, net: int, job: Job, rank: Seen) -> Node:
    inside = [member for member in job.members if member.net == net]
    launcher = next((one for one in inside if one.pid == rank.ppid), rank)
    keeper = _top(inside, launcher)
    interface, address = _address(Space(keeper.pid, net, space.inode(keeper.pid, "user") or 0), rank)
    found = Node(
        index=index,
        name=f"node{index}",
        kind="netns",
        address=address,
        interface=interface,
        pid=keeper.pid,
        start_ticks=keeper.start_ticks,
        launcher=launcher.pid,
        launcher_ticks=launcher.start_ticks,
    )
    return _contained(found)


def _top(inside: list[Seen], one: Seen) -> Seen:
    """The topmost process above one that is still in its network: it lives as long as the node's job."""
    by_pid = {process.pid: process for process in inside}
    while one.ppid in by_pid:
        one = by_pid[one.ppid]
    return one


def _address(where: Space, rank: Seen) -> tuple[str, str]:
    """A node's interface and its address on it.

    Raises:
        SpaceError: the namespace can't be entered, or has none.
    """
    told = json.loads(space.run(where, ["ip", "-j", "-4", "addr", "show", "up"]) or "[]")
    wanted = rank.env.get("GLOO_SOCKET_IFNAME") or rank.env.get("NCCL_SOCKET_IFNAME") or ""
    found = addresses(told)
    if not found:
        raise SpaceError(f"the network of pid {rank.pid} has no address but the loopback's")
    return next((one for one in found if one[0] == wanted), found[0])


def addresses(told: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """(interface, address) of what `ip -j addr` tells, without the loopback. Pure."""
    return [
        (str(link["ifname"]), str(entry["local"]))
        for link in told
        for entry in link.get("addr_info", ())
        if entry.get("family") == "inet" and entry.get("scope") == "global"
    ]


def _contained(node: Node) -> Node:
    """With what the docker daemon knows of a node, where it is one of its containers."""
    try:
        found = CONTAINER.search(Path(f"/proc/{node.pid}/cgroup").read_text(encoding="utf-8"))
    except OSError:
        return node
    if found is None:
        return node
    address = daemon.address()
    try:
        with closing(daemon.client(address)) as client:
            inspected = client.api.inspect_container(found[1])
    except daemon.failures():
        return node  # another engine's, or another machine's: a network namespace all the same
    networks = inspected["NetworkSettings"]["Networks"].values()
    network = next((one["NetworkID"] for one in networks if one.get("IPAddress") == node.address), "")
    return replace(node, kind="docker", container=found[1], network=network, daemon=address)
