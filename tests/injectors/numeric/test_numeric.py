from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from injectors.agent.act_numeric import cell_at, flip, view_of
from injectors.fault import FaultError
from injectors.numeric.bitflip import NumericBitflip
from injectors.numeric.nan import NumericNan
from injectors.numeric.scale import NumericScale

Plan = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (NumericBitflip, {"tensor": "weights"}),
        (NumericBitflip, {"bit": -1}),
        (NumericBitflip, {"element": 2}),
        (NumericNan, {"element": "0.5"}),
        (NumericScale, {"factor": float("nan")}),
    ],
)
def test_bad_parameters_are_refused(kind: Any, params: dict[str, Any]) -> None:
    with pytest.raises(FaultError, match=next(iter(params))):
        kind.from_params(params)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_every_bit_flips_and_flips_back(dtype: torch.dtype) -> None:
    for bit in range(8 * torch.empty(0, dtype=dtype).element_size()):
        tensor = torch.tensor([1.5, 2.5], dtype=dtype)
        cell = view_of(tensor, 1)
        assert flip(cell, bit) is None
        assert str(float(tensor[1])) != "2.5"
        assert tensor[0] == 1.5
        flip(cell, bit)
        assert tensor[1] == 2.5


def test_a_bit_that_the_type_does_not_have_is_refused() -> None:
    tensor = torch.ones(1, dtype=torch.float16)
    assert flip(view_of(tensor, 0), 16) == "bit 16 is not in torch.float16, which has 16"
    assert tensor[0] == 1.0


def test_an_element_is_counted_in_row_order_whatever_the_strides() -> None:
    tensor = torch.arange(12.0).reshape(3, 4)
    for index in range(12):
        assert view_of(tensor, index) == index
        assert view_of(tensor.t().contiguous().t(), index) == index


def test_a_fraction_names_one_element_of_all() -> None:
    tensors = [("a", torch.arange(3.0)), ("b", torch.empty(0)), ("c", torch.arange(3.0, 10.0))]
    for fraction, expected in (
        (0.0, ("a", 0, 0.0)),
        (0.25, ("a", 2, 2.0)),
        (0.3, ("c", 0, 3.0)),
        (1.0, ("c", 6, 9.0)),
    ):
        found = cell_at(tensors, fraction)
        assert found is not None
        assert (found[0], found[1], float(found[2])) == expected
    assert cell_at([], 0.5) is None


@pytest.mark.slow
@pytest.mark.parametrize("tensor", ["param", "grad", "exp_avg", "exp_avg_sq"])
def test_one_element_is_changed_and_the_replica_differs(rig: Any, planned: Plan, tensor: str) -> None:
    params = {"tensor": tensor, "element": 0.3, "bit": 22}
    outcome = rig.run("ddp.py", 4, faults=[planned("numeric.bitflip", 1, params, step=2)], digest=True)
    assert outcome.codes == [0, 0], outcome.output
    evidence = outcome.fired["f1"]
    assert evidence.proven, evidence
    assert evidence.data["tensor"].startswith("module.")
    assert evidence.data["before"] != evidence.data["after"]
    same = [
        left["digest"] == right["digest"]
        for left, right in zip(outcome.commits(0), outcome.commits(1), strict=True)
    ]
    assert same == [True, True, False, False]


@pytest.mark.slow
def test_a_moment_that_the_optimizer_does_not_keep_is_not_a_fault(rig: Any, planned: Plan) -> None:
    fault = planned("numeric.bitflip", 0, {"tensor": "momentum_buffer"}, step=1)
    outcome = rig.run("loops.py", "adamw", world=1, faults=[fault])
    assert outcome.codes == [0]
    assert not outcome.fired["f1"].proven
    assert outcome.fired["f1"].what == "there is no momentum_buffer here"


@pytest.mark.slow
def test_a_nan_in_one_gradient_reaches_the_parameters(rig: Any, planned: Plan) -> None:
    outcome = rig.run("loops.py", "torn", world=1, faults=[planned("numeric.nan", 0, step=2)])
    assert outcome.codes == [0], outcome.output
    assert outcome.output.split() == ["finite", "finite", "nan", "nan"]
    assert outcome.fired["f1"].data["after"] == "nan"


@pytest.mark.slow
def test_gradients_are_scaled(rig: Any, planned: Plan) -> None:
    outcome = rig.run(
        "loops.py", "adamw", world=1, faults=[planned("numeric.scale", 0, {"factor": 10}, step=1)]
    )
    data = outcome.fired["f1"].data
    assert data["norm_after"] == pytest.approx(10 * data["norm_before"], rel=1e-5)
