"""Collectives that are missing, one too many, of another size, failing, or wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from injectors.collective.corrupt import CollectiveCorrupt
from injectors.collective.extra import CollectiveExtra
from injectors.collective.mismatch import CollectiveMismatch
from injectors.fault import FaultError

pytestmark = pytest.mark.slow
Plan = Callable[..., dict[str, Any]]


def line(outcome: Any, rank: int, number: int) -> str:
    found = [row for row in outcome.output.splitlines() if row.startswith(f"rank {rank} {number} ")]
    return found[0].split(" ", 3)[3] if found else ""


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (CollectiveCorrupt, {"bit": 64}),
        (CollectiveCorrupt, {"element": 1.5}),
        (CollectiveMismatch, {"elements": 0}),
        (CollectiveExtra, {"value": "1"}),
    ],
)
def test_bad_parameters_are_refused(kind: Any, params: dict[str, Any]) -> None:
    with pytest.raises(FaultError, match=next(iter(params))):
        kind.from_params(params)


def test_without_faults_all_sums_are_right(rig: Any) -> None:
    outcome = rig.run("sums.py", "all_reduce", "all_gather", "broadcast", "barrier")
    assert outcome.codes == [0, 0]
    for rank in (0, 1):
        assert line(outcome, rank, 0).endswith("[3.0, 3.0, 3.0, 3.0]")
        assert line(outcome, rank, 1).endswith("[0.0, 0.0, 1.0, 1.0]")
        assert line(outcome, rank, 2).endswith("[7.0, 7.0]")


def test_one_bit_of_what_one_rank_received_is_wrong(rig: Any, planned: Plan) -> None:
    faults = [
        planned("collective.corrupt", 1, {"element": 0.5, "bit": 22}, collective={"op": "all_reduce"}),
        planned("collective.corrupt", 0, {"element": 0.99, "bit": 31}, collective={"op": "all_gather"}),
    ]
    outcome = rig.run("sums.py", "all_reduce", "all_gather", "all_reduce", faults=faults)
    assert outcome.codes == [0, 0], outcome.output
    assert line(outcome, 0, 0).endswith("[3.0, 3.0, 3.0, 3.0]")
    assert line(outcome, 1, 0).endswith("[3.0, 3.0, 2.0, 3.0]")
    assert line(outcome, 0, 1).endswith("[0.0, 0.0, 1.0, -1.0]")
    assert line(outcome, 1, 1).endswith("[0.0, 0.0, 1.0, 1.0]")
    evidence = outcome.fired["f1"]
    assert evidence.proven
    assert evidence.data["sum_before"] != evidence.data["sum_after"]
    assert evidence.data["index"] == 2
    assert line(outcome, 1, 2).endswith("[3.0, 3.0, 3.0, 3.0]")


def test_an_error_comes_from_the_backend_of_one_rank(rig: Any, planned: Plan) -> None:
    fault = planned("collective.error", 1, collective={"op": "all_reduce", "nth": 2})
    outcome = rig.run("sums.py", "all_reduce", "all_reduce", faults=[fault])
    assert line(outcome, 1, 0).endswith("[3.0, 3.0, 3.0, 3.0]")
    assert "raised torch-chaos f1: collective.error in allreduce" in line(outcome, 1, 1)
    assert "raised" in line(outcome, 0, 1)
    assert outcome.fired["f1"].proven


def test_one_call_too_many_makes_every_later_sum_wrong_and_says_nothing(rig: Any, planned: Plan) -> None:
    fault = planned("collective.extra", 0, {"value": 100.0}, collective={"op": "all_reduce", "nth": 2})
    outcome = rig.run("sums.py", "all_reduce", "all_reduce", "all_reduce", faults=[fault])
    assert line(outcome, 1, 0).endswith("[3.0, 3.0, 3.0, 3.0]")
    assert line(outcome, 1, 1).endswith("[102.0, 102.0, 102.0, 102.0]")
    assert line(outcome, 1, 2).endswith("[3.0, 3.0, 3.0, 3.0]")
    # The rank itself waits for a partner that has gone.
    assert "raised" in line(outcome, 0, 2)
    assert outcome.fired["f1"].proven


def test_a_call_left_out_shifts_the_sequence(rig: Any, planned: Plan) -> None:
    fault = planned("collective.skip", 0, collective={"op": "all_reduce", "nth": 1})
    outcome = rig.run("sums.py", "all_reduce", "all_reduce", faults=[fault])
    assert line(outcome, 0, 0).endswith("[1.0, 1.0, 1.0, 1.0]")
    assert line(outcome, 1, 0).endswith("[3.0, 3.0, 3.0, 3.0]")
    assert "raised" in line(outcome, 1, 1)
    assert outcome.fired["f1"].data["collective"] == "all_reduce"


def test_a_longer_tensor_ends_a_peer(rig: Any, planned: Plan) -> None:
    fault = planned("collective.mismatch", 0, {"elements": 3}, collective={"op": "all_reduce"})
    outcome = rig.run("sums.py", "all_reduce", faults=[fault])
    assert -6 in outcome.codes
    assert outcome.fired["f1"].data == {"collective": "all_reduce", "elements": 7, "expected": 4}


def test_gradients_of_ddp_are_reached(rig: Any, planned: Plan) -> None:
    """DDP's all-reduces are issued in C++; the replicas differ from the corrupted one on."""
    fault = planned("collective.corrupt", 1, step=2, phase="backward")
    outcome = rig.run("ddp.py", 4, faults=[fault], digest=True)
    assert outcome.codes == [0, 0], outcome.output
    same = [
        left["digest"] == right["digest"]
        for left, right in zip(outcome.commits(0), outcome.commits(1), strict=True)
    ]
    assert same == [True, True, False, False]


def test_a_skipped_gradient_is_a_replica_of_its_own(rig: Any, planned: Plan) -> None:
    fault = planned("collective.skip", 0, step=3, phase="bucket")
    outcome = rig.run("ddp.py", 4, faults=[fault], digest=True)
    assert outcome.fired["f1"].proven
    assert [event["step"] for event in outcome.commits(0)] == [0, 1, 2, 3]
