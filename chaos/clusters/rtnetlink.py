"""The few requests to the kernel's network configuration that a cluster of namespaces needs.

Each acts in the network namespace of the calling process. Standard library only: the processes that make
these requests live in namespaces of their own and start in milliseconds. The numbers are the kernel's
(linux/netlink.h, linux/rtnetlink.h, linux/if_link.h).
"""

from __future__ import annotations

import os
import socket
import struct

NETLINK_ROUTE = 0
RTM_NEWLINK, RTM_DELLINK, RTM_NEWADDR = 16, 17, 20
REQUEST, ACK, EXCLUSIVE, CREATE = 0x1, 0x4, 0x200, 0x400
ERROR = 2
IFLA_ADDRESS, IFLA_IFNAME, IFLA_MASTER, IFLA_LINKINFO, IFLA_NET_NS_PID = 1, 3, 10, 18, 19
INFO_KIND, INFO_DATA, VETH_PEER = 1, 2, 1
IFA_ADDRESS, IFA_LOCAL = 1, 2
IFF_UP = 1


def link_up(name: str) -> None:
    """Take an interface up.

    Raises:
        OSError: the kernel refuses.
    """
    index = socket.if_nametoindex(name)
    _request(RTM_NEWLINK, 0, struct.pack("=BxHiII", 0, 0, index, IFF_UP, IFF_UP))


def add_bridge(name: str) -> None:
    """Create a bridge and take it up.

    Raises:
        OSError: the kernel refuses, or has none.
    """
    info = _attribute(INFO_KIND, b"bridge")
    body = _link(0) + _attribute(IFLA_IFNAME, name.encode() + b"\0") + _attribute(IFLA_LINKINFO, info)
    _request(RTM_NEWLINK, CREATE | EXCLUSIVE, body)
    link_up(name)


def add_cable(name: str, bridge: str, far_name: str, far_pid: int, far_mac: bytes) -> None:
    """Lay a cable from a bridge to the namespace of another process: a pair of veth interfaces.

    Args:
        name: the near end, plugged into `bridge` and up.
        bridge: an interface of this namespace.
        far_name: the far end, down, as it is called in the namespace of `far_pid`.
        far_pid: a process in that namespace, as this process's pid namespace numbers it.
        far_mac: its hardware address, 6 bytes.

    Raises:
        OSError: the kernel refuses, or has no veth.
    """
    peer = _link(0)
    peer += _attribute(IFLA_IFNAME, far_name.encode() + b"\0")
    peer += _attribute(IFLA_NET_NS_PID, struct.pack("=I", far_pid))
    peer += _attribute(IFLA_ADDRESS, far_mac)
    info = _attribute(INFO_KIND, b"veth") + _attribute(INFO_DATA, _attribute(VETH_PEER, peer))
    body = _link(IFF_UP) + _attribute(IFLA_IFNAME, name.encode() + b"\0")
    body += _attribute(IFLA_MASTER, struct.pack("=I", socket.if_nametoindex(bridge)))
    body += _attribute(IFLA_LINKINFO, info)
    _request(RTM_NEWLINK, CREATE | EXCLUSIVE, body)


def add_address(name: str, address: str, prefix: int) -> None:
    """Give an interface an IPv4 address.

    Raises:
        OSError: the kernel refuses.
    """
    raw = socket.inet_aton(address)
    body = struct.pack("=BBBBi", socket.AF_INET, prefix, 0, 0, socket.if_nametoindex(name))
    body += _attribute(IFA_LOCAL, raw) + _attribute(IFA_ADDRESS, raw)
    _request(RTM_NEWADDR, CREATE | EXCLUSIVE, body)


def _link(flags: int) -> bytes:
    return struct.pack("=BxHiII", 0, 0, 0, flags, flags)


def _attribute(kind: int, value: bytes) -> bytes:
    size = 4 + len(value)
    return struct.pack("=HH", size, kind) + value + b"\0" * (-size % 4)


def _request(kind: int, flags: int, body: bytes) -> None:
    """Send one request and wait for the kernel's answer to it."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_ROUTE) as line:
        line.bind((0, 0))
        line.sendto(struct.pack("=IHHII", 16 + len(body), kind, REQUEST | ACK | flags, 1, 0) + body, (0, 0))
        answer = line.recv(65536)
    said = struct.unpack_from("=H", answer, 4)[0]
    if said != ERROR:
        raise OSError(f"the kernel answered a request of kind {kind} by a message of kind {said}")
    number = -struct.unpack_from("=i", answer, 16)[0]
    if number:
        raise OSError(number, f"network request {kind}: {os.strerror(number)}")
