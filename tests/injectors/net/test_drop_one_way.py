from __future__ import annotations

from typing import Any

import pytest

from injectors.net.drop_one_way import NetDropOneWay
from tests.injectors.net.rig import Rig

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("params", "aimed", "cut"),
    [
        ({}, [1], {"1>0", "1>2"}),
        ({"direction": "in"}, [1], {"0>1", "2>1"}),
        ({"pairs": "0>2"}, [], {"0>2"}),
        ({"mechanism": "packet relay"}, [1], {"1>0", "1>2"}),
    ],
    ids=["out", "in", "pairs", "relay"],
)
def test_one_direction_is_silent_and_the_other_is_heard(
    cluster: Rig, cycle: Any, params: dict[str, Any], aimed: list[int], cut: set[str]
) -> None:
    seen = cycle(NetDropOneWay(**params), cluster.place(*aimed))["verified"]
    reach = seen.data["during"]["reach"]
    assert {name for name, way in reach.items() if way["udp_ms"] is None} == cut
    # A connection needs both directions.
    shut = cut | {f"{name[2]}>{name[0]}" for name in cut}
    assert {name for name, way in reach.items() if way["tcp"] != "ok"} == shut


def test_aimed_at_nothing_it_is_unproven(cluster: Rig) -> None:
    fault, place = NetDropOneWay(), cluster.place()
    assert fault.undo_record(place) is None
    assert not fault.inject(place, None).proven
