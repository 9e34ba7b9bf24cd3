"""`node.isolate`: the node hears no one and is heard by no one, until it is undone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from injectors.node import NodeIsolate, NodeKill
from tests.chaos.clusters import support
from tests.injectors.node.conftest import Nodes

# As support.KNOCK, but it gives up soon: 11 is a connection that nobody answers.
SILENCE = support.KNOCK.replace("settimeout(5)", "settimeout(0.5)")


@pytest.mark.slow
def test_the_node_is_silent_for_the_others_and_they_for_it(
    nodes: Nodes, require: Callable[[str], None], tmp_path: Path
) -> None:
    require("nft")
    fault, place = NodeIsolate(), nodes.place(1)
    record = fault.undo_record(place)
    assert record is not None
    fired = fault.inject(place, None)
    assert fired.proven, fired.what
    seen = fault.verify(place, fired)
    assert seen.proven, seen.what
    log = tmp_path / "log"
    cluster = nodes.cluster
    assert support.said(cluster, 0, log, SILENCE, cluster.nodes[1].address) != 111
    assert support.said(cluster, 1, log, SILENCE, cluster.nodes[2].address) != 111
    assert support.said(cluster, 0, log, support.KNOCK, cluster.nodes[2].address) == 111
    assert fault.undo(record).proven
    assert fault.undo(record).proven
    after = fault.verify_undone(record)
    assert after.proven, after.what
    assert support.said(cluster, 0, log, support.KNOCK, cluster.nodes[1].address) == 111


@pytest.mark.slow
def test_it_is_undone_with_the_node_gone(nodes: Nodes, require: Callable[[str], None]) -> None:
    require("nft")
    fault, place = NodeIsolate(), nodes.place(1)
    record = fault.undo_record(place)
    assert record is not None
    assert fault.inject(place, None).proven
    assert NodeKill().inject(nodes.place(1), None).proven
    assert fault.undo(record).proven
    assert fault.verify_undone(record).proven


@pytest.mark.slow
def test_aimed_at_nothing_it_did_nothing(nodes: Nodes, require: Callable[[str], None]) -> None:
    require("nft")
    fault, place = NodeIsolate(), nodes.place()
    assert fault.undo_record(place) is None
    fired = fault.inject(place, None)
    assert not fired.proven
    assert "did nothing" in fired.what
