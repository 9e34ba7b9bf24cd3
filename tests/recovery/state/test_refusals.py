"""What can't be copied exactly, or what only one rank holds, is refused by name."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import functools
import io
import itertools
import logging
import math
import pathlib
import random
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from recovery.state import StateError, StateTree
from tests.recovery.state.support import move, tree_of

RANDOM = (
    "is rank-local state which no other rank could give back\n  mend: derive what it draws from "
    "(run.seed, run.rank, step) at the start of each step instead of keeping it"
)
ITERATOR = (
    "is rank-local state which no other rank could give back\n  mend: address data by the step index: "
    "derive the batch from (run.seed, run.rank, step), don't keep an iterator"
)


def _numbers() -> Iterator[int]:
    yield 1


class Slots:
    __slots__ = ("value",)


class Anything(nn.Module):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def _refusal(name: str, obj: object) -> str:
    with pytest.raises(StateError) as caught:
        StateTree().add(name, obj)
    return str(caught.value)


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (torch.Generator(), f"x: torch._C.Generator {RANDOM}"),
        (random.Random(1), f"x: random.Random {RANDOM}"),
        (np.random.default_rng(1), f"x: numpy.random._generator.Generator {RANDOM}"),
        (np.random.RandomState(1), f"x: numpy.random.mtrand.RandomState {RANDOM}"),
        (iter([1]), f"x: list_iterator {ITERATOR}"),
        (_numbers(), f"x: generator {ITERATOR}"),
        (itertools.count(), f"x: itertools.count {ITERATOR}"),
        (DataLoader([1]), f"x: torch.utils.data.dataloader.DataLoader {ITERATOR}"),
        (iter(DataLoader([1])), f"x: torch.utils.data.dataloader._SingleProcessDataLoaderIter {ITERATOR}"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_rank_local_state_is_refused_wherever_it_is(obj: object, message: str) -> None:
    assert _refusal("x", obj) == message
    assert _refusal("model", Anything({"a": [obj]})) == message.replace("x:", "model.value['a'][0]:", 1)


def test_what_has_no_state_dict_is_refused_with_its_type() -> None:
    assert _refusal("thing", Slots()) == (
        "thing: tests.recovery.state.test_refusals.Slots can't be protected: it is no module, optimizer, "
        "scheduler or scaler and has no state_dict and load_state_dict\n"
        "  mend: give it both methods, or protect the objects that it is made of"
    ).replace("tests.recovery.state.test_refusals", __name__)


@pytest.mark.parametrize("value", [Slots(), io.BytesIO(), threading.Thread(), memoryview(b"x"), [object()]])
def test_attributes_with_hidden_state_are_refused(value: object) -> None:
    message = _refusal("model", Anything(value))
    assert message.startswith("model.value")
    assert "recovery_ignored = (" in message


class Config:
    """As the configuration objects of model libraries are: plain, mutable, shared by many modules."""

    def __init__(self) -> None:
        self.hidden_size = 8
        self.dtype = torch.bfloat16
        self.id2label = {0: "a", 1: "b"}
        self.nested = {"rope": {"theta": 1e4, "factors": [1.0, 2.0]}}
        self.activation = nn.functional.gelu


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    width: int = 8
    sizes: tuple[int, ...] = (1, 2)


HARMLESS = [
    Config(),
    Frozen(),
    logging.getLogger("x"),
    threading.Lock(),
    torch.device("cpu"),
    torch.float16,
    torch.nn.functional.relu,
    lambda x: x,
    functools.partial(torch.nn.functional.gelu, approximate="tanh"),
    nn.Linear,
    {nn.Linear: nn.init.zeros_},
    pathlib.Path("a"),
    re.compile("x"),
    range(3),
    slice(1),
    datetime.timedelta(1),
    np.broadcast_to(np.zeros(1), (3,)),
    np.float32(1),
    torch.finfo(torch.float32),
    nn.init,
    functools.lru_cache(lambda x: x),
    weakref.ref(Config),
    nn.Linear(1, 1).forward,
    Config.__init__,
    [].append,
    math.sin,
]


@pytest.mark.parametrize("value", HARMLESS, ids=lambda value: type(value).__name__)
def test_configurations_and_code_are_not_refused(value: object) -> None:
    model = Anything(value)
    model.inner = nn.Sequential(Anything(value))
    tree = tree_of(model=model)
    tree.capture()
    before = tree.digest()
    model.value = None
    assert tree.digest() != before
    tree.rollback()
    assert model.value is value
    assert tree.digest() == before
    assert move(tree, tree_of(model=copy.copy(model))) == before


def test_names_are_identifiers_and_unique() -> None:
    tree = tree_of(model=nn.Linear(1, 1))
    with pytest.raises(StateError, match="'model': is protected twice"):
        tree.add("model", nn.Linear(1, 1))
    with pytest.raises(StateError, match=r"'a\.b': is not a name"):
        tree.add("a.b", nn.Linear(1, 1))


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (lambda: torch.zeros(2, 2).to_sparse(), "has layout torch.sparse_coo"),
        (lambda: torch.zeros(2, 2).to_sparse_csr(), "has layout torch.sparse_csr"),
        (
            lambda: torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.qint8),
            "is quantised (torch.qint8)",
        ),
        (lambda: torch.zeros(2, device="meta"), "is on the meta device"),
        (lambda: torch.zeros(2, dtype=torch.complex64).conj(), "is a lazy conjugate"),
        (lambda: torch.ones(2, requires_grad=True) * 2, "carries autograd history"),
        (lambda: nn.parameter.UninitializedParameter(), "is not initialised yet"),
    ],
    ids=["coo", "csr", "quantised", "meta", "conjugate", "history", "lazy"],
)
@pytest.mark.filterwarnings("ignore:.*:UserWarning", "ignore:.*:DeprecationWarning")
def test_tensors_whose_bytes_are_not_all_are_refused(build: Callable[[], torch.Tensor], problem: str) -> None:
    message = _refusal("model", Anything(build()))
    assert message.startswith(f"model.value: {problem}")
    assert "\n  mend: " in message


def test_what_appears_during_training_is_refused_at_the_next_step() -> None:
    model = Anything(None)
    tree = tree_of(model=model)
    tree.capture()
    model.value = iter([1])
    with pytest.raises(StateError, match=r"model\.value: list_iterator"):
        tree.capture()


def test_optimizer_state_that_belongs_to_no_parameter_is_refused() -> None:
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    tree = tree_of(model=model, optimizer=optimizer)
    optimizer.state["step"] = 3
    with pytest.raises(StateError, match=r"optimizer\.state: has an entry for a str that is in none"):
        tree.capture()


def test_a_scheduler_without_its_optimizer_is_refused() -> None:
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], 0.1)
    tree = tree_of(scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 1))
    with pytest.raises(StateError, match=r"scheduler\.optimizer: refers to a SGD that is not protected"):
        tree.capture()


def test_a_scaler_in_the_middle_of_its_step_is_refused() -> None:
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu")
    tree = tree_of(model=model, optimizer=optimizer, scaler=scaler)
    scaler.scale(model(torch.ones(1)).sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(StateError, match="scaler: has unscaled or stepped without update"):
        tree.capture()


def test_sharded_and_scripted_state_is_refused() -> None:
    class ZeroRedundancyOptimizer(torch.optim.SGD):
        pass

    sharded = ZeroRedundancyOptimizer([torch.ones(1, requires_grad=True)], 0.1)
    assert "shards its state over the ranks" in _refusal("optimizer", sharded)


def test_a_broken_state_dict_is_named() -> None:
    class Broken:
        def state_dict(self) -> dict[str, Any]:
            raise KeyError("gone")

        def load_state_dict(self, state: dict[str, Any]) -> None: ...

    with pytest.raises(StateError, match=r"average: state_dict\(\) raised KeyError\('gone'\)"):
        tree_of(average=Broken()).capture()
