"""The few requests to the kernel's network configuration that a cluster of namespaces needs.

Each acts in the network namespace of the calling process.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError


@contextmanager
def _asked(what: str) -> Iterator[Any]:
    """A line to the kernel, for one request: whoever forks next must not share it.

    Raises:
        OSError: the kernel refuses.
    """
    try:
        with IPRoute() as line:
            yield line
    except NetlinkError as error:
        raise OSError(error.code, f"{what}: {error}") from None


def link_up(name: str) -> None:
    """Take an interface up.

    Raises:
        OSError: the kernel refuses.
    """
    with _asked(f"taking {name} up") as line:
        line.link("set", index=socket.if_nametoindex(name), state="up")


def add_bridge(name: str) -> None:
    """Create a bridge and take it up.

    Raises:
        OSError: the kernel refuses, or has none.
    """
    with _asked(f"making the bridge {name}") as line:
        line.link("add", ifname=name, kind="bridge")
    link_up(name)


def add_cable(name: str, bridge: str, far_name: str, far_pid: int, far_mac: str) -> None:
    """Lay a cable from a bridge to the namespace of another process: a pair of veth interfaces.

    Args:
        name: the near end, plugged into `bridge` and up.
        bridge: an interface of this namespace.
        far_name: the far end, down, as it is called in the namespace of `far_pid`.
        far_pid: a process in that namespace, as this process's pid namespace numbers it.
        far_mac: its hardware address, `02:..`.

    Raises:
        OSError: the kernel refuses, or has no veth.
    """
    far = {"ifname": far_name, "net_ns_pid": far_pid, "address": far_mac}
    with _asked(f"laying the cable {name}") as line:
        line.link("add", ifname=name, kind="veth", peer=far)
        line.link("set", index=socket.if_nametoindex(name), master=socket.if_nametoindex(bridge), state="up")


def add_address(name: str, address: str, prefix: int) -> None:
    """Give an interface an IPv4 address.

    Raises:
        OSError: the kernel refuses.
    """
    with _asked(f"giving {name} the address {address}") as line:
        line.addr("add", index=socket.if_nametoindex(name), address=address, prefixlen=prefix)
