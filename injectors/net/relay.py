"""Starts the process that holds back, loses or slows what a node sends to some of its peers."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from injectors.net import links, space
from injectors.net.lines import Helper
from injectors.net.scenes import Scene
from injectors.net.space import SpaceError


@dataclass(frozen=True, kw_only=True)
class Treatment:
    """What a relay does to every packet.

    Attributes:
        jitter_s: the delay is drawn evenly from `delay_s` plus and minus this.
        loss: the share of packets that is thrown away, 0 to 1.
        rate_bytes_s: 0 for no limit.
    """

    delay_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0
    rate_bytes_s: float = 0.0


def peers(scene: Scene, node: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The nodes to which a node's way is affected."""
    return [scene.node(b) for a, b in sorted(scene.pairs) if a == node["index"]]


def start(scene: Scene, node: Mapping[str, Any], link: str, treatment: Treatment) -> Helper:
    """Start a node's relay; it is at work when this returns.

    Raises:
        SpaceError: the node or a peer is gone.
        HelperError: the relay could not set itself up; it has left nothing behind.
    """
    where = space.standing(node)
    own = _link(node)
    wanted = {
        "interface": node["interface"],
        "address": node["address"],
        "mac": own["address"],
        "mtu": own["mtu"],
        "link": link,
        "remark": scene.remark,
        "peers": [{"address": p["address"], "mac": _link(p)["address"]} for p in peers(scene, node)],
        "delay_s": treatment.delay_s,
        "jitter_s": treatment.jitter_s,
        "loss": treatment.loss,
        "rate_bytes_s": treatment.rate_bytes_s,
        # The same plan draws the same numbers, though not for the same packets.
        "seed": zlib.crc32(f"{scene.place.fault} {node['index']}".encode()),
    }
    with space.opened(where) as (net, user):
        fds = [fd for fd in (net, user) if fd is not None]
        start = {**wanted, "net": net, "user": user}
        return Helper("relaying.py", scene.tag, scene.place.run, start, fds)


def _link(node: Mapping[str, Any]) -> dict[str, Any]:
    found = links.show(space.standing(node), node["interface"])
    if found is None:
        raise SpaceError(f"{node['name']} has no interface {node['interface']}")
    return found
