"""The same faults on the product's own clusters: namespaces and containers."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chaos.clusters.base import Cluster, Plot
from chaos.clusters.docker_nodes import DockerCluster
from chaos.clusters.netns import NetnsCluster
from injectors.fault import Place
from injectors.net import dockernet, space
from injectors.net.bandwidth import NetBandwidth
from injectors.net.delay import NetDelay
from injectors.net.drop_one_way import NetDropOneWay
from injectors.net.link_down import NetLinkDown
from injectors.net.loss import NetLoss
from injectors.net.partition import NetPartition

pytestmark = pytest.mark.slow


def opened(kind: type[Cluster]) -> Cluster:
    made = kind(Plot(f"test-{os.getpid()}-{uuid.uuid4().hex[:6]}", "net", 3))
    made.open()
    return made


@pytest.fixture(scope="module", params=["netns", "docker"])
def nodes(request: pytest.FixtureRequest, require: Callable[[str], None]) -> Iterator[Cluster]:
    require("nft")
    require(request.param)
    made = opened(NetnsCluster if request.param == "netns" else DockerCluster)
    yield made
    made.destroy()


@pytest.fixture
def containers(require: Callable[[str], None]) -> Iterator[Cluster]:
    require("docker")
    made = opened(DockerCluster)
    yield made
    made.destroy()


def place_of(cluster: Cluster, *aimed: int) -> Place:
    return Place(nodes=tuple(cluster.nodes), aimed=aimed, run=cluster.plot.run, fault="f1")


FAULTS: list[Any] = [
    NetPartition(shape="minority"),
    NetPartition(mechanism="packet relay"),
    NetDropOneWay(),
    NetDelay(),
    NetLoss(percent=20.0),
    NetBandwidth(),
    NetLinkDown(mechanism="ip link"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f"{f.id}-{f.mechanism}")
def test_it_is_proven_and_undone(nodes: Cluster, fault: Any) -> None:
    place = place_of(nodes, 1)
    record = fault.undo_record(place)
    assert record is not None
    fired = fault.inject(place, None)
    seen = fault.verify(place, fired)
    undone = fault.undo(record)
    healed = fault.verify_undone(record)
    assert fired.proven, fired
    assert seen.proven, seen
    assert undone.proven, undone
    assert healed.proven, healed


@pytest.mark.parametrize("fault", [NetLinkDown, NetPartition], ids=lambda f: f.id)
def test_the_daemon_takes_a_container_off_its_network_and_brings_it_back(
    containers: Cluster, fault: Any
) -> None:
    made, place = fault(mechanism="docker network"), place_of(containers, 1)
    record = made.undo_record(place)
    assert record is not None
    fired = made.inject(place, None)
    assert made.verify(place, fired).proven
    node = record.data["nodes"][0]
    assert dockernet.connected(node) is False
    for _ in range(2):
        assert made.undo(record).proven
    assert dockernet.connected(node) is True
    healed = made.verify_undone(record)
    assert healed.proven, healed


def test_without_rights_in_the_nodes_the_daemon_is_the_witness(
    containers: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member of the group `docker` may command the daemon, and enter no namespace."""

    def refused(where: object) -> None:
        raise space.SpaceError("nsenter: Operation not permitted")

    monkeypatch.setattr(space, "opened", refused)
    fault, place = NetPartition(), place_of(containers, 1)
    record = fault.undo_record(place)
    assert record is not None
    fired = fault.inject(place, None)
    assert fired.data["mechanism"] == "docker network"
    seen = fault.verify(place, fired)
    assert (seen.proven, seen.source, seen.what) == (
        True,
        "docker daemon",
        "node1: is not connected to its network",
    )
    assert fault.undo(record).proven
    assert fault.verify_undone(record).proven


def test_a_container_that_is_gone_needs_no_undo(containers: Cluster) -> None:
    fault, place = NetLinkDown(mechanism="docker network"), place_of(containers, 1)
    record = fault.undo_record(place)
    assert record is not None
    assert fault.inject(place, None).proven
    containers.destroy()
    result = fault.undo(record)
    assert (result.proven, result.what) == (True, "node1: the container is gone")
    assert fault.verify_undone(record).proven
