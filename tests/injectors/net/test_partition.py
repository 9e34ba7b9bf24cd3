from __future__ import annotations

from typing import Any

import pytest

from injectors.fault import FaultError
from injectors.net.partition import NetPartition
from tests.injectors.net.rig import Rig

pytestmark = pytest.mark.slow


def shut(evidence: Any) -> set[str]:
    """The ways that no datagram went while the fault was on."""
    return {name for name, seen in evidence.data["during"]["reach"].items() if seen["udp_ms"] is None}


@pytest.mark.parametrize(
    ("params", "aimed", "cut"),
    [
        ({}, [1], {"0>1", "1>0", "1>2", "2>1"}),
        ({"shape": "minority"}, [0], {"0>1", "1>0", "0>2", "2>0"}),
        ({"shape": "majority"}, [0], {"0>2", "2>0", "1>2", "2>1"}),
        ({"shape": "bridge"}, [2], {"0>1", "1>0"}),
        ({"shape": "pairs", "pairs": "0-2"}, [], {"0>2", "2>0"}),
        ({"mechanism": "packet relay"}, [1], {"0>1", "1>0", "1>2", "2>1"}),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_what_is_cut_is_silent_and_nothing_else(
    cluster: Rig, cycle: Any, params: dict[str, Any], aimed: list[int], cut: set[str]
) -> None:
    seen = cycle(NetPartition(**params), cluster.place(*aimed))
    assert shut(seen["verified"]) == cut
    # Of a job that sends nothing nothing is counted; the prober's own packets were.
    data = seen["verified"].data
    assert sum(data["counters_of_the_job"].values()) == 0
    assert sum(data["counters"].values()) > 0
    assert data["mechanism"] == params.get("mechanism", "nft")


@pytest.mark.parametrize(
    ("params", "aimed"),
    [({}, []), ({}, [0, 1, 2]), ({"shape": "ring"}, [0]), ({"shape": "pairs"}, [1])],
)
def test_aimed_at_nothing_it_is_unproven(cluster: Rig, params: dict[str, Any], aimed: list[int]) -> None:
    fault, place = NetPartition(**params), cluster.place(*aimed)
    assert fault.undo_record(place) is None
    fired = fault.inject(place, None)
    assert not fired.proven
    assert "leaves every way between the nodes as it is" in fired.what
    assert not fault.verify(place, fired).proven


def test_rules_that_cut_nothing_are_found_out(cluster: Rig, cycle: Any) -> None:
    """The prober is the judge: a table that is there, with rules that match nothing, proves nothing."""
    fault, place = NetPartition(), cluster.place(1)
    record = fault.undo_record(place)
    assert record is not None
    fired = fault.inject(place, None)
    table = record.data["table"]
    for index in range(3):
        cluster.inside(index, "nft", "flush", "chain", "inet", table, "arriving")
    seen = fault.verify(place, fired)
    assert not seen.proven
    assert seen.what.startswith("still through: 0>1, 1>0")
    assert fault.undo(record).proven
    assert fault.verify_undone(record).proven


def test_a_cut_that_stays_is_not_undone(cluster: Rig) -> None:
    fault, place = NetPartition(), cluster.place(1)
    record = fault.undo_record(place)
    assert record is not None
    assert fault.inject(place, None).proven
    seen = fault.verify_undone(record)
    assert not seen.proven
    assert seen.what.startswith("still there: node0: table torch_chaos_test_f1")
    assert fault.undo(record).proven
    # By now another prober looks: the first ended with the first look.
    assert fault.verify_undone(record).proven


def test_two_at_once_heal_each_for_itself(cluster: Rig) -> None:
    first, second = NetPartition(), NetPartition(shape="pairs", pairs="0-2")
    places = [cluster.place(1, fault="f1"), cluster.place(fault="f2")]
    records = []
    for fault, place in zip((first, second), places, strict=True):
        records.append(fault.undo_record(place))
        assert fault.verify(place, fault.inject(place, None)).proven
    assert first.undo(records[0]).proven
    assert second.undo(records[1]).proven
    assert first.verify_undone(records[0]).proven
    assert second.verify_undone(records[1]).proven


def test_pairs_with_another_shape_are_refused(cluster: Rig) -> None:
    with pytest.raises(FaultError, match="pairs is for shape pairs"):
        NetPartition(pairs="0-1").undo_record(cluster.place(1))
