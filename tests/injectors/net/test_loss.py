from __future__ import annotations

from typing import Any

import pytest

from injectors.net.loss import NetLoss, lost
from tests.injectors.net.rig import Rig

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mechanism", ["nft", "packet relay"])
def test_the_share_that_was_asked_for_is_lost(cluster: Rig, cycle: Any, mechanism: str) -> None:
    data = cycle(NetLoss(percent=20.0, mechanism=mechanism), cluster.place(1))["verified"].data
    assert 0.1 < lost(data["during"]["burst"]) < 0.3
    dropped = sum(n for name, n in data["counters"].items() if "from_" in name or "dropped" in name)
    sent = sum(way["sent"] for way in data["during"]["burst"].values())
    received = sum(way["received"] for way in data["during"]["burst"].values())
    assert dropped >= sent - received


def test_no_loss_is_nothing(cluster: Rig) -> None:
    fault, place = NetLoss(percent=0.0), cluster.place(1)
    assert fault.undo_record(place) is None
    assert not fault.inject(place, None).proven
