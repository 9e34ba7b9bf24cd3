from __future__ import annotations

from typing import Any, cast

import pytest

from injectors.net.bandwidth import NetBandwidth
from tests.injectors.net.rig import Rig

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mechanism", ["tc tbf", "nft", "packet relay"])
def test_a_connection_carries_no_more_than_the_limit(cluster: Rig, cycle: Any, mechanism: str) -> None:
    data = cycle(NetBandwidth(rate_bytes_s=2e6, mechanism=mechanism), cluster.place(1))["verified"].data
    # One way for each node that sends; what the others send is as fast as ever.
    assert list(data["during"]["flow"]) == ["1>0"]
    assert 0 < data["during"]["flow"]["1>0"]["bytes_s"] < 3.2e6
    assert data["before"]["flow"]["1>0"]["bytes_s"] > 6e6


def test_a_limit_above_what_the_link_carries_is_unproven(cluster: Rig, cycle: Any) -> None:
    cycle(NetBandwidth(rate_bytes_s=50e9), cluster.place(1), proven=False)


def test_aimed_at_nothing_it_is_unproven(cluster: Rig) -> None:
    fault, place = NetBandwidth(), cluster.place()
    assert fault.undo_record(place) is None
    assert not fault.inject(place, None).proven


@pytest.mark.parametrize(
    ("limit", "was", "now", "proven"),
    [
        (1e6, 400e6, 1.0e6, True),
        (1e6, 400e6, 300e6, False),
        (1e6, 400e6, 0.0, False),
        (50e9, 400e6, 90e6, False),
    ],
    ids=["limited", "unlimited", "cut", "a-busy-machine-and-no-limit"],
)
def test_what_proves_a_limit(limit: float, was: float, now: float, proven: bool) -> None:
    fault, view = NetBandwidth(rate_bytes_s=limit), cast(Any, None)
    before, during = ({"flow": {"1>0": {"bytes_s": rate}}} for rate in (was, now))
    assert fault.shows(view, before, during)[0] is proven
