"""The desk with nodes: who is aimed at, who stands at the moment, and what a return takes back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from injectors.catalogue import CATALOGUE
from injectors.fault import Evidence, Fault, Node, Place, UndoRecord
from tests.chaos.runner.test_desk import Bench, Line, planned


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    for process in made.victims.values():
        process.kill()
        process.wait()


class Nodes:
    """Two nodes with a rank each; counts who was brought back."""

    run = "run"

    def __init__(self) -> None:
        self.back: list[int] = []

    def all(self) -> tuple[Node, ...]:
        return tuple(Node(index=index, name=f"node{index}", kind="fake") for index in range(2))

    def node_of(self, rank: int) -> int | None:
        return rank if rank < 2 else None

    def ranks_on(self, index: int) -> list[int]:
        return [index]

    def bring_back(self, index: int) -> Evidence:
        self.back.append(index)
        return Evidence(
            f"node{index} is back", True, data={"node": index, "holder": [0, 0], "launcher": [0, 0]}
        )


@dataclass(frozen=True, kw_only=True)
class OnNodes(Fault):
    """Notes whom it was aimed at."""

    id: ClassVar[str] = "test.nodes"
    aims_at: ClassVar[Any] = "nodes"
    has_undo: ClassVar[bool] = True
    stands_for: ClassVar[str] = "nothing"
    does_not_certify: ClassVar[str] = "anything"
    places: ClassVar[list[Place]] = []

    def undo_record(self, victim: Place) -> UndoRecord:
        # A process that never was: there is nothing to do, and that is done.
        return UndoRecord("signal.cont", 2**22 - 1, 1, victim.fault)

    def inject(self, victim: Place, channel: Any) -> Evidence:
        self.places.append(victim)
        return Evidence("done", True)

    def verify(self, victim: Place, fired: Evidence | None = None) -> Evidence:
        return Evidence("seen", True)


@dataclass(frozen=True, kw_only=True)
class Later(OnNodes):
    """Goes on after the agent."""

    id: ClassVar[str] = "test.later"
    has_undo: ClassVar[bool] = False
    proof_comes_later: ClassVar[bool] = True

    def undo_record(self, victim: Place) -> None:  # type: ignore[override]  # nothing to undo
        return None

    def follow(self, victim: Place, fired: Evidence) -> Evidence:
        return Evidence("followed", True)

    def verify(self, victim: Place, fired: Evidence | None = None) -> Evidence:
        assert fired is not None
        return Evidence(fired.what, True)


@pytest.fixture
def on_nodes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    catalogue = {**CATALOGUE, **{fault.id: fault for fault in (OnNodes, Later)}}
    for module in ("chaos.runner.desk", "tests.chaos.runner.test_desk"):
        monkeypatch.setattr(f"{module}.CATALOGUE", catalogue)
    OnNodes.places.clear()
    found = Nodes()
    bench.nodes = found
    return found


def test_a_fault_of_nodes_is_placed_by_the_agent_of_rank_0(bench: Bench, on_nodes: Nodes) -> None:
    desk = bench.open(planned("test.nodes", where={"node": 1}, when={"step": 7}))
    assert desk.for_agents()[0]["where"] == {"rank": 0}
    bench.victim(0)
    line = Line()
    assert bench.reached("f1", 0, line) == "go"
    assert line.said == ["go"]
    (place,) = OnNodes.places
    assert (place.aimed, place.run, place.step, len(place.nodes)) == ((1,), "run", 7, 2)
    fired = bench.said("fault.fired")
    assert (fired["node"], fired["ranks"], fired["rank"]) == (1, [1], 1)
    assert bench.journal.lines == [("undo", "s/f1")]


def test_a_rank_stands_for_the_node_that_it_is_on(bench: Bench, on_nodes: Nodes) -> None:
    bench.open(planned("test.nodes", where={"rank": 1}, when={"step": 7}))
    bench.victim(1)
    assert bench.reached("f1", 1, Line()) == "go"
    assert OnNodes.places[0].aimed == (1,)
    assert OnNodes.places[0].rank == 1


def test_without_nodes_such_a_fault_does_not_fire(bench: Bench, on_nodes: Nodes) -> None:
    bench.nodes = None
    desk = bench.open(planned("test.nodes", where={"node": 1}, when={"step": 7}))
    bench.victim(0)
    assert bench.reached("f1", 0, Line()) == "skip"
    desk.close("the target ended")
    assert bench.stages() == ["armed", "failed"]
    assert "the target has no nodes" in bench.said("fault.failed")["detail"]


def test_a_node_that_returns_is_freed_of_what_holds_it_first(bench: Bench, on_nodes: Nodes) -> None:
    desk = bench.open(
        planned("test.nodes", where={"node": 1}, when={"step": 7}),
        planned("node.return", id="f2", where={"node": 1}, when={"step": 8}),
    )
    bench.victim(0)
    assert bench.reached("f1", 0, Line()) == "go"
    assert bench.reached("f2", 0, Line()) == "go"
    assert on_nodes.back == [1]
    assert bench.stages("f1")[-2:] == ["undone", "undo_verified"]
    desk.close("the target ended")


def test_a_fault_that_goes_on_is_over_when_its_proof_is_there(bench: Bench, on_nodes: Nodes) -> None:
    desk = bench.open(planned("test.later", where={"node": 0}, when={"step": 7}))
    bench.victim(0)
    assert bench.reached("f1", 0, Line()) == "go"
    desk.join()
    assert bench.stages() == ["armed", "reached", "fired", "verified"]
    assert bench.said("fault.verified")["evidence"]["what"] == "followed"
    assert bench.said("heal.start")["t"] >= bench.said("fault.verified")["t"]
