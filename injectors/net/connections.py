"""The established TCP connections between nodes, as the kernel of a node lists them.

Standard library only.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Mapping
from typing import Any

from injectors.net import space
from injectors.net.shapes import Pair

Connection = tuple[str, int, str, int]
"""Address and port here, address and port there."""
_ESTABLISHED = "01"


def parse(table: str) -> list[Connection]:
    """The established connections in the text of /proc/net/tcp and /proc/net/tcp6, IPv4 only."""
    found = []
    for line in table.splitlines():
        words = line.split()
        # The heading has another word there.
        if len(words) > 3 and words[3] == _ESTABLISHED:
            here, there = _end(words[1]), _end(words[2])
            if here is not None and there is not None:
                found.append((*here, *there))
    return found


def _end(word: str) -> tuple[str, int] | None:
    address, _, port = word.partition(":")
    if len(address) == 32:
        # IPv4 in an IPv6 socket: ::ffff:a.b.c.d, in the byte order of the machine.
        if address[:24] != "0000000000000000FFFF0000":
            return None
        address = address[24:]
    return socket.inet_ntoa(struct.pack("=I", int(address, 16))), int(port, 16)


def of_node(node: Mapping[str, Any]) -> list[Connection]:
    """A node's established connections.

    Raises:
        SpaceError: the node is gone.
    """
    where = space.standing(node)
    # Read by a process in the node. A kernel without IPv6 has no second table.
    return parse(space.run(where, ["sh", "-c", "cat /proc/self/net/tcp; cat /proc/self/net/tcp6 || true"]))


def between(nodes: Iterable[Mapping[str, Any]], pairs: Iterable[Pair]) -> dict[int, list[Connection]]:
    """By node: its connections to the nodes that it is paired with. `pairs`: (node, peer)."""
    by_index = {int(node["index"]): node for node in nodes}
    peers: dict[int, set[str]] = {}
    for a, b in pairs:
        peers.setdefault(a, set()).add(by_index[b]["address"])
    return {
        index: [
            seen
            for seen in of_node(by_index[index])
            if seen[0] == by_index[index]["address"] and seen[2] in addresses
        ]
        for index, addresses in peers.items()
    }
