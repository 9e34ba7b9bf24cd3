"""Mechanisms that need no rule in the kernel: a relay in user space, and the docker daemon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from injectors.fault import FaultError, Mechanism
from injectors.net import dockernet, links, relay, space, tags, undoing
from injectors.net.dockernet import DockerError
from injectors.net.scenes import Scene
from injectors.net.ways import Way

if TYPE_CHECKING:
    from injectors.net.base import NetFault


class RelayWay(Way):
    """A relay in each node that sends something."""

    kind = undoing.RELAY

    def __init__(self, mechanism: Mechanism, treatment: Callable[[Any], relay.Treatment]) -> None:
        super().__init__(mechanism)
        self._treatment = treatment

    def prepare(self, fault: NetFault, scene: Scene) -> dict[str, Any]:
        link = tags.link(scene.place.run, scene.place.fault)
        nodes = [scene.node(index) for index in sorted({sender for sender, _ in scene.pairs})]
        for node in nodes:
            self._refuse(scene, node, link)
        return {"link": link, "tag": scene.tag, "remark": scene.remark, "nodes": nodes}

    def _refuse(self, scene: Scene, node: Mapping[str, Any], link: str) -> None:
        where = space.standing(node)
        if links.show(where, link) is not None:
            raise FaultError(f"{node['name']}: there is a link {link} already, which is left alone")
        for peer in relay.peers(scene, node):
            if route := links.host_route(where, peer["address"]):
                raise FaultError(f"{node['name']}: there is a route already, which is left alone: {route}")
            if router := links.gateway(where, peer["address"]):
                raise FaultError(
                    f"{node['name']}: {peer['name']} is behind the router {router}, the relay serves one wire"
                )

    def apply(self, fault: NetFault, scene: Scene, data: Mapping[str, Any]) -> None:
        for node in data["nodes"]:
            scene.helpers.append(relay.start(scene, node, data["link"], self._treatment(fault)))

    def counters(self, scene: Scene, data: Mapping[str, Any]) -> dict[str, int]:
        found: dict[str, int] = {}
        for node, helper in zip(data["nodes"], scene.helpers, strict=True):
            found |= {f"{node['name']} {name}": n for name, n in helper.ask("counts", 10.0).items()}
        return found


class DockerWay(Way):
    """The daemon takes the aimed containers off their network."""

    kind = undoing.DOCKER
    enters = False

    def unfit(self, scene: Scene) -> str | None:
        if any(node.kind != "docker" for node in scene.place.nodes):
            return "the nodes are no containers"
        rest = {node.index for node in scene.place.nodes} - set(scene.place.aimed)
        whole = {pair for a in scene.place.aimed for b in rest for pair in ((a, b), (b, a))}
        if scene.pairs != whole or len(scene.place.aimed) != 1:
            return "the docker daemon can take one node off its network, and nothing finer"
        return None

    def prepare(self, fault: NetFault, scene: Scene) -> dict[str, Any]:
        nodes = []
        for node in scene.place.nodes:
            if node.index not in scene.place.aimed:
                continue
            plain = {
                "name": node.name,
                "container": node.container,
                "network": node.network,
                "daemon": node.daemon,
            }
            try:
                nodes.append({**plain, **dockernet.place_of(plain)})
            except DockerError as error:
                raise FaultError(str(error)) from error
        return {"nodes": nodes}

    def apply(self, fault: NetFault, scene: Scene, data: Mapping[str, Any]) -> None:
        for node in data["nodes"]:
            dockernet.disconnect(node)

    def counters(self, scene: Scene, data: Mapping[str, Any]) -> dict[str, int]:
        return {
            f"{node['name']} on its network": int(dockernet.connected(node) is True) for node in data["nodes"]
        }
