from __future__ import annotations

from typing import Any

import pytest

from injectors.net.half_open import NetHalfOpen
from tests.injectors.net.rig import Rig

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("new", "found"), [("refuse", "ECONNREFUSED"), ("drop", "silent"), ("accept", "ok")], ids=lambda v: v
)
def test_connections_fall_silent_and_new_ones_find_what_was_stated(
    cluster: Rig, cycle: Any, traffic: Any, new: str, found: str
) -> None:
    data = cycle(NetHalfOpen(new=new), cluster.place(1))["verified"].data
    # Those of the third node go on: it was not aimed at.
    assert set(data["during"]["held"]) == {"0>1", "1>2"}
    assert all(set(ends.values()) == {"silent"} for ends in data["during"]["held"].values())
    assert {data["during"]["reach"][way]["tcp"] for way in ("0>1", "1>0", "1>2", "2>1")} == {found}
    assert data["during"]["reach"]["0>2"]["tcp"] == "ok"
    # No end was told anything, so both go on where they were once packets pass again.
    assert traffic.alive(0)
    assert traffic.alive(1)


def test_without_a_connection_it_is_unproven(cluster: Rig) -> None:
    fault, place = NetHalfOpen(), cluster.place(1)
    assert fault.undo_record(place) is None
    fired = fault.inject(place, None)
    assert not fired.proven
    assert "no connection was established" in fired.what


def test_a_port_that_no_connection_uses_is_nothing(cluster: Rig, traffic: Any) -> None:
    fault, place = NetHalfOpen(port=9), cluster.place(1)
    assert fault.undo_record(place) is None
    assert not fault.inject(place, None).proven
    assert traffic.alive(0)
