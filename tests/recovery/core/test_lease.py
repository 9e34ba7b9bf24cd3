"""A node's side of its lease."""

from __future__ import annotations

import pytest

from recovery.core.config import Config
from recovery.core.fleet import FleetCoordinator
from recovery.core.lease import Lease
from recovery.core.nodes import Node

CONFIG = Config(world_size=2, nodes=2, lease_s=2.0, beat_s=0.2, lease_margin_s=0.3, clock_drift=0.01)


def test_it_runs_from_when_the_greeting_was_sent() -> None:
    lease = Lease(CONFIG, 10.0)
    assert (lease.until, lease.fence_at) == (12.0, 11.7)


def test_it_runs_from_when_the_granted_beat_was_sent_not_from_the_grant() -> None:
    lease = Lease(CONFIG, 10.0)
    assert lease.beat(10.0) == 1
    assert lease.beat(10.1) is None
    assert lease.beat(10.2) == 2
    lease.granted(1)
    assert lease.until == 12.0
    lease.granted(2)
    assert lease.until == pytest.approx(12.2)


def test_a_repeated_or_older_or_unknown_grant_prolongs_nothing() -> None:
    lease = Lease(CONFIG, 10.0)
    for now in (10.0, 10.5, 11.0):
        lease.beat(now)
    lease.granted(3)
    for number in (3, 2, 1, 99):
        lease.granted(number)
        assert lease.until == 13.0


def test_processes_are_ended_a_margin_before_it_is_over() -> None:
    lease = Lease(CONFIG, 10.0)
    assert not lease.over(11.69)
    assert lease.over(11.71)


def test_once_over_a_late_grant_does_not_bring_it_back() -> None:
    lease = Lease(CONFIG, 10.0)
    lease.beat(11.5)
    assert lease.over(11.8)
    lease.granted(1)
    assert lease.over(11.8)


def test_it_says_when_to_look_again() -> None:
    lease = Lease(CONFIG, 10.0)
    assert lease.due() == 10.0
    lease.beat(10.0)
    assert lease.due() == pytest.approx(10.2)
    lease.beat(11.65)
    assert lease.due() == lease.fence_at


@pytest.mark.parametrize("rate", [1 / 1.01, 1.0, 1.01])
@pytest.mark.parametrize("way_s", [0.0, 0.5])
def test_the_coordinator_waits_longer_than_any_allowed_clock_lets_the_node_act(
    rate: float, way_s: float
) -> None:
    """The node sends a beat at 0; by the coordinator's clock it acts until `until / rate`."""
    lease = Lease(CONFIG, 0.0)
    coordinator = FleetCoordinator(CONFIG)
    given_up_at = coordinator._lease_end(Node(1), way_s)
    assert given_up_at >= lease.until / rate - 1e-12
