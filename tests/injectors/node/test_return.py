"""`node.return`: the engine brings it back, the kernel says whether it did."""

from __future__ import annotations

import pytest

from injectors.fault import Evidence
from injectors.node import NodeKill, NodeReturn, return_
from tests.injectors.node.conftest import Nodes


class Engine:
    """Brings a node back as the engine does."""

    def __init__(self, nodes: Nodes, index: int) -> None:
        self.nodes, self.index = nodes, index

    def act(self, timeout_s: float = 10.0) -> Evidence:
        self.nodes.running[self.index].stop()
        self.nodes.cluster.revive(self.index)
        self.nodes.log(self.index).write_text("")
        self.nodes.start(self.index)
        node = self.nodes.cluster.nodes[self.index]
        back = {
            "node": node.index,
            "holder": [node.pid, node.start_ticks],
            "launcher": [node.launcher, node.launcher_ticks],
        }
        return Evidence("back", True, data={"back": [back]})


@pytest.mark.slow
def test_a_node_that_was_killed_is_there_again(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(return_, "THERE_S", 0.2)
    nodes.start(1)
    assert NodeKill().inject(nodes.place(1), None).proven
    fault = NodeReturn()
    fired = fault.inject(nodes.place(1), Engine(nodes, 1))
    seen = fault.verify(nodes.place(1), fired)
    assert seen.proven, seen.what
    assert "node1 (launcher" in seen.what
    # And not what is not: a launcher on another node, one that has ended, a node that is gone again.
    claim = dict(fired.data["back"][0])
    elsewhere = {**claim, "holder": [nodes.cluster.nodes[0].pid, nodes.cluster.nodes[0].start_ticks]}
    ended = {**claim, "launcher": [claim["launcher"][0], 1]}
    for back, why in ((elsewhere, "not in its network"), (ended, "has ended")):
        found = fault.verify(nodes.place(1), Evidence("claimed", True, data={"back": [back]}))
        assert not found.proven
        assert why in found.what
    assert NodeKill().inject(nodes.place(1), None).proven
    assert not fault.verify(nodes.place(1), fired).proven


def test_without_an_engine_and_without_a_node_nothing_is_proven(nodes: Nodes) -> None:
    fault = NodeReturn()
    alone = fault.inject(nodes.place(1), None)
    assert not alone.proven
    assert "only the engine" in alone.what
    assert not fault.verify(nodes.place(1), alone).proven
