"""Mechanisms in the kernel of the node: nft tables, qdiscs, an interface that is set down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from injectors.fault import FaultError, Mechanism
from injectors.net import links, space, tables, tags, undoing
from injectors.net.scenes import Scene
from injectors.net.ways import Way

if TYPE_CHECKING:
    from injectors.net.base import NetFault

Lines = Callable[[Any, Scene], dict[int, list[str]]]
"""Fault and scene -> the body of each node's table, by the node's index."""


class NftWay(Way):
    """A table of our own in each node that receives something."""

    kind = undoing.TABLE

    def __init__(self, mechanism: Mechanism, lines: Lines) -> None:
        super().__init__(mechanism)
        self._lines = lines

    def prepare(self, fault: NetFault, scene: Scene) -> dict[str, Any]:
        lines = self._lines(fault, scene)
        scene.work["lines"] = lines
        nodes = [scene.node(index) for index in sorted(lines)]
        for node in nodes:
            tables.refuse_existing(space.standing(node), scene.tag, scene.remark, node["name"])
        return {"table": scene.tag, "remark": scene.remark, "nodes": nodes}

    def apply(self, fault: NetFault, scene: Scene, data: Mapping[str, Any]) -> None:
        for node in data["nodes"]:
            body = scene.work["lines"][node["index"]]
            script = tables.script(data["table"], data["remark"], body)
            space.run(space.standing(node), ["nft", "-f", "-"], script)

    def counters(self, scene: Scene, data: Mapping[str, Any]) -> dict[str, int]:
        return tables.every_counter(data["nodes"], data["table"])


def arriving(scene: Scene, verdict: Callable[[int], str]) -> dict[int, list[str]]:
    """A table body for each receiver: what arrives from each of its senders is treated by `verdict(sender)`.

    The rule stands where packets arrive, so the sender's kernel gets no error: as on a wire, they are gone.
    """
    body: dict[int, list[str]] = {}
    for sender, receiver in sorted(scene.pairs):
        body.setdefault(receiver, []).append(
            f"    ip saddr {scene.node(sender)['address']} {verdict(sender)}"
        )
    found = {}
    for receiver, rules in body.items():
        named = [f"  counter from_{a} {{ }}" for a, b in sorted(scene.pairs) if b == receiver]
        head = "    type filter hook prerouting priority -300; policy accept;"
        found[receiver] = [*named, "  chain arriving {", head, *rules, "  }"]
    return found


def dropping(fault: NetFault, scene: Scene) -> dict[int, list[str]]:
    """Everything that a cut way carries is dropped."""
    return arriving(scene, lambda sender: f"counter name from_{sender} drop")


class QdiscWay(Way):
    """A root qdisc on the interface of each node that sends something."""

    kind = undoing.QDISC

    def __init__(self, mechanism: Mechanism, qdisc: str, words: Callable[[Any], list[str]]) -> None:
        super().__init__(mechanism)
        self._qdisc, self._words = qdisc, words

    def prepare(self, fault: NetFault, scene: Scene) -> dict[str, Any]:
        nodes = [scene.node(index) for index in sorted({sender for sender, _ in scene.pairs})]
        for node in nodes:
            kind, handle = links.root_qdisc(space.standing(node), node["interface"])
            # `0:` is what the kernel puts there by itself, and puts back.
            if handle != "0:":
                raise FaultError(
                    f"{node['name']}: {node['interface']} has the root qdisc {kind} {handle}, which stays\n"
                    f"  mend: remove it, if it is yours: tc qdisc del dev {node['interface']} root"
                )
        handle = tags.handle(scene.place.run, scene.place.fault)
        return {"qdisc": self._qdisc, "handle": handle, "nodes": nodes}

    def apply(self, fault: NetFault, scene: Scene, data: Mapping[str, Any]) -> None:
        for node in data["nodes"]:
            words = ["root", "handle", data["handle"], data["qdisc"], *self._words(fault)]
            space.run(space.standing(node), ["tc", "qdisc", "add", "dev", node["interface"], *words])

    def counters(self, scene: Scene, data: Mapping[str, Any]) -> dict[str, int]:
        found: dict[str, int] = {}
        for node in data["nodes"]:
            seen = links.qdisc_counters(space.standing(node), node["interface"])
            found |= {f"{node['name']} {name}": n for name, n in seen.items()}
        return found


class LinkWay(Way):
    """The node's own interface is set down."""

    kind = undoing.LINK

    def prepare(self, fault: NetFault, scene: Scene) -> dict[str, Any]:
        nodes = []
        for index in sorted(scene.place.aimed):
            node = scene.node(index)
            where = space.standing(node)
            found = links.show(where, node["interface"])
            if found is None or "UP" not in found["flags"]:
                raise FaultError(f"{node['name']}: {node['interface']} is missing or down already")
            if found.get("ifalias"):
                raise FaultError(
                    f"{node['name']}: {node['interface']} has the alias {found['ifalias']!r}, which stays\n"
                    f"  mend: ip link set dev {node['interface']} alias ''"
                )
            nodes.append({**node, "routes": links.routes(where, node["interface"])})
        return {"remark": scene.remark, "nodes": nodes}

    def apply(self, fault: NetFault, scene: Scene, data: Mapping[str, Any]) -> None:
        for node in data["nodes"]:
            where = space.standing(node)
            # The remark first: what is down without it is not ours to set up.
            space.run(where, ["ip", "link", "set", "dev", node["interface"], "alias", data["remark"]])
            space.run(where, ["ip", "link", "set", "dev", node["interface"], "down"])

    def counters(self, scene: Scene, data: Mapping[str, Any]) -> dict[str, int]:
        found = {}
        for node in data["nodes"]:
            seen = links.show(space.standing(node), node["interface"]) or {}
            found[f"{node['name']} {node['interface']} is up"] = int("UP" in seen.get("flags", ()))
        return found
