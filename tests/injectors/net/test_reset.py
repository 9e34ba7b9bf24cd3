from __future__ import annotations

import errno
from typing import Any

import pytest

from injectors.net import abilities
from injectors.net.reset import NetReset
from tests.injectors.net.rig import Rig

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mechanism", ["ss -K", "nft"])
def test_both_ends_are_reset_once_and_new_connections_work(
    cluster: Rig, cycle: Any, traffic: Any, mechanism: str
) -> None:
    if mechanism == "ss -K" and abilities.destroy_missing():
        pytest.skip("this kernel destroys no socket")
    data = cycle(NetReset(mechanism=mechanism, port=7000), cluster.place(1))["verified"].data
    assert data["counters"]["connections of the job"] == 1
    assert data["counters"]["ends still established"] == 0
    assert traffic.end_of(0) in (f"client {errno.ECONNRESET}", f"client {errno.ECONNABORTED}")
    # That of the third node was left alone.
    assert traffic.alive(1)


def test_without_a_connection_it_is_unproven(cluster: Rig) -> None:
    fault, place = NetReset(), cluster.place(1)
    assert fault.undo_record(place) is None
    fired = fault.inject(place, None)
    assert not fired.proven
    assert "no connection was established" in fired.what


def test_a_port_that_no_connection_uses_is_nothing(cluster: Rig, traffic: Any) -> None:
    fault, place = NetReset(port=9), cluster.place(1)
    assert fault.undo_record(place) is None
    assert not fault.inject(place, None).proven
    assert traffic.alive(0)
