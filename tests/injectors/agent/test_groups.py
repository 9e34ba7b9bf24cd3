"""The delegating process group carries whatever torch does with one, and faults reach it by group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.slow
Plan = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("kind", ["collectives", "fsdp", "zero", "many"])
def test_it_carries(rig: Any, kind: str) -> None:
    outcome = rig.run("sharded.py", kind, digest=True)
    assert outcome.codes == [0, 0], outcome.output
    assert outcome.output.count("fine") == 2


def test_an_optimizer_that_wraps_another_steps_once(rig: Any) -> None:
    outcome = rig.run("sharded.py", "zero", digest=True)
    for rank in (0, 1):
        assert [event["step"] for event in outcome.commits(rank)] == [0, 1, 2]
    left, right = outcome.commits(0)[2], outcome.commits(1)[2]
    # Each rank keeps the moments of its own share, and says so.
    assert left["local"] == right["local"] == ["optimizer"]
    assert left["parts"]["params"] == right["parts"]["params"]


def test_shards_are_told_from_replicas(rig: Any) -> None:
    outcome = rig.run("sharded.py", "fsdp", digest=True)
    assert [event["step"] for event in outcome.commits(0)] == [0, 1, 2]
    left, right = outcome.commits(0)[2], outcome.commits(1)[2]
    assert left["local"] == right["local"] == ["optimizer", "params"]
    assert left["parts"]["params"] != right["parts"]["params"]


def test_a_fault_on_a_sharded_gradient(rig: Any, planned: Plan) -> None:
    where = {"group": "default_pg", "op": "reduce_scatter"}
    fault = planned("collective.delay", 1, {"duration_s": 0.05}, step=1, collective=where)
    outcome = rig.run("sharded.py", "fsdp", faults=[fault])
    assert outcome.codes == [0, 0], outcome.output
    assert outcome.reached[0].step == 1
    assert outcome.reached[0].collective["op"] == "reduce_scatter"


def test_a_fault_in_a_group_made_by_the_script(rig: Any, planned: Plan) -> None:
    fault = planned("collective.corrupt", 1, {"bit": 22, "element": 0.0}, collective={"group": "pair"})
    outcome = rig.run("sharded.py", "collectives", faults=[fault])
    assert "AssertionError" in outcome.output
    assert outcome.fired["f1"].proven


def test_the_nth_all_gather_of_a_step(rig: Any, planned: Plan) -> None:
    fault = planned("process.kill", 0, step=1, collective={"nth": 2, "op": "all_gather"})
    outcome = rig.run("sharded.py", "fsdp", faults=[fault])
    assert outcome.codes[0] == -9
    assert outcome.reached[0].collective["op"] == "all_gather"
    assert [event["step"] for event in outcome.commits(0)] == [0]
