"""Take down a cluster whose tool is gone: what carries the run's marker and the cluster's name, no more."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

from injectors import signals
from injectors.marks import MARKER, having
from injectors.undo import Handler, site_packages

if TYPE_CHECKING:
    from docker import DockerClient

NETNS, DOCKER = "cluster.netns", "cluster.docker"
# In the environment of a cluster's keeper, beside the run's marker.
CLUSTER = "TORCH_CHAOS_CLUSTER"
# On everything of docker's that a cluster has.
LABEL, CLUSTER_LABEL = "torch-chaos.run", "torch-chaos.cluster"
GONE_S = 5.0


def sharing_network(pid: int) -> list[int]:
    """The living processes in the same network namespace as `pid`, itself included; [] if it is gone."""
    try:
        return in_network(os.stat(f"/proc/{pid}/ns/net").st_ino)
    except OSError:
        return []


def in_network(inode: int) -> list[int]:
    """The living processes in a network namespace."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            if os.stat(f"/proc/{name}/ns/net").st_ino == inode:
                found.append(int(name))
        except OSError:
            # Gone, or another user's.
            continue
    return [pid for pid in found if signals.state(pid) not in ("Z", "X", None)]


def _keepers(run: str, cluster: str) -> list[int]:
    found = having({MARKER: run, CLUSTER: cluster})
    return [pid for pid in found if signals.state(pid) not in ("Z", "X", None)]


def _netns(record: Mapping[str, Any]) -> tuple[bool, str]:
    """The namespaces have no name: with their last process the kernel removes them."""
    run, cluster = str(record["data"]["run"]), str(record["data"]["cluster"])
    limit = time.monotonic() + GONE_S
    ended = 0
    while left := _keepers(run, cluster):
        if time.monotonic() > limit:
            return False, f"processes {left} that keep network namespaces do not end"
        for pid in left:
            ticks = signals.start_ticks(pid)
            if ticks is not None and signals.send(pid, ticks, signal.SIGKILL):
                ended += 1
        time.sleep(0.01)
    return True, f"ended {ended} keepers of network namespaces" if ended else "no namespace is kept"


def _docker(record: Mapping[str, Any]) -> tuple[bool, str]:
    data = record["data"]
    site_packages()
    from injectors.cluster import daemon

    try:
        with closing(daemon.client(str(data["daemon"]))) as client:
            return remove_containers(client, str(data["run"]), str(data["cluster"]), GONE_S)
    except daemon.failures() as error:
        return False, f"containers of the run may be left: {error}"


def ours(client: DockerClient, run: str, cluster: str) -> list[str]:
    """Containers, networks and images that carry both labels."""
    chosen = {"label": [f"{LABEL}={run}", f"{CLUSTER_LABEL}={cluster}"]}
    api = client.api
    return [
        *(f"container {c['Id'][:12]} {c['Names'][0]}" for c in api.containers(all=True, filters=chosen)),
        *(f"network {n['Id'][:12]} {n['Name']}" for n in api.networks(filters=chosen)),
        *(f"image {i['Id'][7:19]}" for i in api.images(filters=chosen)),
    ]


def remove_containers(client: DockerClient, run: str, cluster: str, timeout_s: float) -> tuple[bool, str]:
    """Remove what carries both labels, in the order in which it depends on each other."""
    from docker.errors import APIError

    chosen = {"label": [f"{LABEL}={run}", f"{CLUSTER_LABEL}={cluster}"]}
    api, limit, removed, trouble = client.api, time.monotonic() + timeout_s, 0, ""
    while True:
        steps: list[Callable[[], Any]] = []
        for container in api.containers(all=True, filters=chosen):
            steps.append(partial(api.remove_container, container["Id"], v=True, force=True))
        for network in api.networks(filters=chosen):
            steps.append(partial(api.remove_network, network["Id"]))
        for image in api.images(filters=chosen):
            steps.append(partial(api.remove_image, image["Id"], force=True))
        if not steps:
            return (
                True,
                f"removed {removed} of docker's objects" if removed else "nothing of docker's is left",
            )
        if time.monotonic() > limit:
            return False, f"docker keeps {', '.join(ours(client, run, cluster))}: {trouble}"
        for step in steps:
            try:
                step()
                removed += 1
            except APIError as error:
                # Being removed already, or still in use by what is: the next look says.
                trouble = str(error)
        time.sleep(0.01)


HANDLERS: Mapping[str, Handler] = {NETNS: _netns, DOCKER: _docker}
