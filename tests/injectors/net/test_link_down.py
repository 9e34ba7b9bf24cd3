from __future__ import annotations

from typing import Any

import pytest

from injectors.net.link_down import NetLinkDown
from tests.injectors.net.rig import Rig

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mechanism", ["ip link", "nft", "packet relay"])
def test_the_node_is_off_the_network_and_back_with_its_routes(
    cluster: Rig, cycle: Any, mechanism: str
) -> None:
    assert "10.99.0.0/16 via 10.77.0.250" in cluster.inside(1, "ip", "route")
    data = cycle(NetLinkDown(mechanism=mechanism), cluster.place(1))["verified"].data
    assert {name for name, way in data["during"]["reach"].items() if way["udp_ms"] is None} == {
        "0>1",
        "1>0",
        "1>2",
        "2>1",
    }
    assert "10.99.0.0/16 via 10.77.0.250" in cluster.inside(1, "ip", "route")


def test_its_own_kernel_knows(cluster: Rig, cycle: Any) -> None:
    data = cycle(NetLinkDown(), cluster.place(1))["verified"].data
    assert data["counters"] == {"node1 eth0 is up": 0}
    assert data["during"]["reach"]["1>0"]["tcp"] == "ENETUNREACH"


def test_two_that_are_down_do_not_reach_each_other(cluster: Rig, cycle: Any) -> None:
    data = cycle(NetLinkDown(), cluster.place(1, 2))["verified"].data
    assert all(way["udp_ms"] is None for way in data["during"]["reach"].values())


def test_aimed_at_nothing_it_is_unproven(cluster: Rig) -> None:
    fault, place = NetLinkDown(), cluster.place()
    assert fault.undo_record(place) is None
    assert not fault.inject(place, None).proven
