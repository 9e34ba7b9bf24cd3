"""Meeting the peers of a new generation, over the supervisor's private channel: no TCPStore.

On one node each generation's gloo device listens on a loopback address of its own, so its sockets are known
exactly. Between nodes it listens on the node's address, and says on which port.
"""

from __future__ import annotations

import base64
import datetime
import json
import socket
from typing import Any

import torch
import torch.distributed as dist

from recovery.shell.channel import Channel
from recovery.shell.linux import own_sockets
from recovery.shell.rendezvous_address import LISTENS, loopback_address

_c10d: Any = torch._C._distributed_c10d

# While a group forms, a peer may die; gloo waits five times this for a peer that does not come.
# At the start nobody is being replaced and four processes warm up at once: give them longer.
FORM_TIMEOUT = datetime.timedelta(seconds=0.15)
FIRST_FORM_TIMEOUT = datetime.timedelta(seconds=0.4)
# Between nodes a connection costs round trips, and whoever can't be reached has been left out before.
NODES_FORM_TIMEOUT = datetime.timedelta(seconds=0.8)
GROUP_TIMEOUT = datetime.timedelta(seconds=30)


class StaleGeneration(RuntimeError):
    """The supervisor has gone on; this rendezvous can't complete."""


class RpcStore(_c10d.Store):  # type: ignore[misc]
    """The key-value store that gloo meets over, kept by the supervisor, one namespace a generation."""

    def __init__(self, channel: Channel, generation: int, prefix: str) -> None:
        super().__init__()
        self._channel = channel
        self._generation = generation
        self._prefix = prefix

    def _call(self, op: str, **arguments: Any) -> dict[str, Any]:
        self._channel.send(op=op, generation=self._generation, **arguments)
        answer = self._channel.receive()
        if answer.get("stale"):
            raise StaleGeneration(f"generation {self._generation} is over")
        return answer

    def set(self, key: str, value: str | bytes) -> None:
        data = value.encode() if isinstance(value, str) else bytes(value)
        self._call("set", key=self._prefix + key, value=base64.b64encode(data).decode())

    def get(self, key: str) -> bytes:
        return base64.b64decode(self._call("get", key=self._prefix + key)["value"])

    def wait(self, keys: list[str], *timeout: Any) -> None:
        self._call("wait", keys=[self._prefix + key for key in keys])

    def add(self, key: str, amount: int) -> int:
        return int(self._call("add", key=self._prefix + key, amount=amount)["value"])

    def check(self, keys: list[str]) -> bool:
        return bool(self._call("check", keys=[self._prefix + key for key in keys])["value"])

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """The supervisor ends a wait when the generation is over, so no timeout is kept here."""

    def delete_key(self, key: str) -> bool:
        return False

    def num_keys(self) -> int:
        return 0


def form_gloo(store: Any, rank: int, size: int, generation: int, address: str) -> Any:
    """Connect to every peer.

    Args:
        address: this node's address in a job of several nodes, "" in a job of one.

    Raises:
        RuntimeError: a peer did not come, or the generation is over.
    """
    gloo: Any = dist.ProcessGroupGloo
    options = gloo._Options()
    if address:
        options._timeout = NODES_FORM_TIMEOUT
        before = _listening_ports(address)
        options._devices = [gloo.create_device(hostname=address)]
        for port in _listening_ports(address) - before:
            store.set(f"{LISTENS}{rank}/{port}", json.dumps([address, port]))
    else:
        options._timeout = FIRST_FORM_TIMEOUT if generation == 1 else FORM_TIMEOUT
        options._devices = [gloo.create_device(hostname=loopback_address(generation))]
    group = gloo(store, rank, size, options)
    group._set_default_timeout(GROUP_TIMEOUT)
    return group


def _listening_ports(address: str) -> set[int]:
    """Ports of this process's listening sockets at an address."""
    found = set()
    for _, sock in own_sockets():
        try:
            listens = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            if listens and sock.getsockname()[0] == address:
                found.add(int(sock.getsockname()[1]))
        except OSError:
            continue  # of another kind
    return found
