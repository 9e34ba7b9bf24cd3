"""From a plan's cluster to the object that makes its nodes, and what of it works on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chaos.clusters import docker_nodes, local, netns
from chaos.clusters.base import Ability, Cluster, Plot
from chaos.errors import Refused

KINDS: Mapping[str, type[Cluster]] = {
    "local": local.LocalCluster,
    "netns": netns.NetnsCluster,
    "docker": docker_nodes.DockerCluster,
}
PROBES: Mapping[str, Callable[[], Ability]] = {
    "local": local.probe,
    "netns": netns.probe,
    "docker": docker_nodes.probe,
}


def make_cluster(spec: Mapping[str, Any], plot: Plot) -> Cluster:
    """The cluster of a target, not yet open."""
    return KINDS[spec["kind"]](plot)


def check(spec: Mapping[str, Any]) -> None:
    """Refuse a cluster that this machine cannot make.

    Raises:
        Refused: what is missing, and how to get it.
    """
    found = PROBES[spec["kind"]]()
    if not found.works:
        raise Refused(f"a cluster of kind {spec['kind']!r} cannot be made here: {found.detail}", found.mend)
    if spec.get("image"):
        docker_nodes.check_image(spec["image"])
