from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

from injectors.fault import FaultError
from injectors.net import abilities, scenes
from injectors.net.delay import NetDelay
from tests.injectors.net.rig import Rig

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "params", [{"delay_s": 0.04}, {"delay_s": 0.06, "jitter_s": 0.04}], ids=["even", "jitter"]
)
def test_what_a_node_sends_arrives_later(cluster: Rig, cycle: Any, params: dict[str, float]) -> None:
    seen = cycle(NetDelay(**params), cluster.place(1))
    burst = seen["verified"].data["during"]["burst"]
    assert set(burst) == {"1>0", "1>2"}
    least_ms = 1e3 * (params["delay_s"] - params.get("jitter_s", 0.0))
    assert all(way["min_ms"] >= 0.95 * least_ms for way in burst.values())
    assert all(way["received"] == way["sent"] for way in burst.values())


def test_without_netem_the_relay_is_taken(cluster: Rig, cycle: Any) -> None:
    wanted = "tc netem" if abilities.qdisc_missing("netem delay 10ms") is None else "packet relay"
    seen = cycle(NetDelay(), cluster.place(1))
    assert seen["fired"].data["mechanism"] == wanted


def test_connections_that_were_there_are_delayed_and_live_on(cluster: Rig, traffic: Any) -> None:
    fault, place = NetDelay(delay_s=0.02, mechanism="packet relay"), cluster.place(1)
    record = fault.undo_record(place)
    assert record is not None
    assert fault.inject(place, None).proven
    # The question is held back, the answer is not.
    assert traffic.alive(0) >= 0.019
    assert fault.undo(record).proven
    assert fault.verify_undone(record).proven
    assert traffic.alive(0) < 0.019


def test_a_relay_that_dies_takes_its_link_along(cluster: Rig, traffic: Any) -> None:
    """Nothing has to be undone when the relay was killed: the kernel has done it."""
    before = cluster.state()
    fault, place = NetDelay(mechanism="packet relay"), cluster.place(1)
    record = fault.undo_record(place)
    assert record is not None
    assert fault.inject(place, None).proven
    scene = scenes.get("test", "f1")
    assert scene is not None
    os.kill(scene.helpers[0].pid, signal.SIGKILL)
    deadline = time.monotonic() + 20
    while cluster.state() != before:
        assert time.monotonic() < deadline, "the link is still there"
        time.sleep(0.02)
    assert traffic.alive(0)
    assert fault.undo(record).proven
    assert fault.verify_undone(record).proven


def test_no_delay_is_nothing(cluster: Rig) -> None:
    fault, place = NetDelay(delay_s=0.0), cluster.place(1)
    assert fault.undo_record(place) is None
    assert not fault.inject(place, None).proven


def test_more_jitter_than_delay_is_refused(cluster: Rig) -> None:
    with pytest.raises(FaultError, match=r"jitter_s=0\.2 is more than delay_s=0\.1"):
        NetDelay(delay_s=0.1, jitter_s=0.2).undo_record(cluster.place(1))
