"""Interfaces and qdiscs of a node, as `ip -j` and `tc -j` tell of them.

Standard library only: the undo path runs when the tool is already dead.
"""

from __future__ import annotations

import json
from typing import Any

from injectors.net import space
from injectors.net.space import Space, SpaceError


def show(where: Space, interface: str) -> dict[str, Any] | None:
    """What the kernel says of an interface (`address`, `flags`, `ifalias`, ...); None if there is none."""
    try:
        found = json.loads(space.run(where, ["ip", "-j", "-s", "-d", "link", "show", "dev", interface]))
    except SpaceError as error:
        if "does not exist" in str(error):
            return None
        raise
    return dict(found[0])


def routes(where: Space, interface: str) -> list[list[str]]:
    """The routes over an interface that the kernel does not make by itself, as words of `ip route`."""
    lines = space.run(where, ["ip", "-4", "route", "show", "dev", interface]).splitlines()
    return [line.split() for line in lines if line.strip() and "proto kernel" not in line]


def host_route(where: Space, address: str) -> str:
    """The route to exactly this address, empty if there is none."""
    return space.run(where, ["ip", "-4", "route", "show", "exact", f"{address}/32"]).strip()


def gateway(where: Space, address: str) -> str | None:
    """The router on the way to an address; None if it is on the same wire."""
    found = json.loads(space.run(where, ["ip", "-j", "-4", "route", "get", address]))
    way = found[0].get("gateway")
    return None if way is None else str(way)


def root_qdisc(where: Space, interface: str) -> tuple[str, str]:
    """Kind and handle of an interface's root qdisc; the handle is `0:` where it is the kernel's own."""
    found = json.loads(space.run(where, ["tc", "-j", "qdisc", "show", "dev", interface]))
    for item in found:
        if item.get("root"):
            return str(item["kind"]), str(item["handle"])
    return "noqueue", "0:"


def qdisc_counters(where: Space, interface: str) -> dict[str, int]:
    """Packets that the root qdisc has sent, dropped and held back so far."""
    found = json.loads(space.run(where, ["tc", "-s", "-j", "qdisc", "show", "dev", interface]))
    root: dict[str, Any] = next((item for item in found if item.get("root")), {})
    return {name: int(root.get(name, 0)) for name in ("packets", "drops", "overlimits")}
