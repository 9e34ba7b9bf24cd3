"""A process built anew takes a peer's state over and goes on as if it had been there."""

from __future__ import annotations

import argparse
import collections
import copy
import types
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from recovery.state import StateError, StateTree
from tests.recovery.state.support import Trainer, full_trainer, move, tree_of


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_fresh_process_adopts_and_continues_equally(steps: int) -> None:
    holder, receiver = full_trainer(0), full_trainer(1)
    for index in range(steps):
        holder.tree.capture()
        holder.step(index)
    assert move(holder.tree, receiver.tree) == holder.tree.digest() == receiver.tree.digest()
    for index in range(steps, steps + 3):
        for trainer in (holder, receiver):
            trainer.tree.capture()
            trainer.step(index)
        assert receiver.tree.digest() == holder.tree.digest()


def test_a_survivor_that_is_ahead_goes_back_to_an_older_state() -> None:
    holder, ahead = full_trainer(0), full_trainer(0)
    ahead.tree.capture()
    ahead.step(0)
    objects = [*ahead.parts["model"].parameters()]
    assert move(holder.tree, ahead.tree) == holder.tree.digest()
    assert ahead.parts["optimizer"].state_dict()["state"] == {}
    after = ahead.parts["model"].parameters()
    assert all(old is new for old, new in zip(objects, after, strict=True))


def test_the_optimizer_of_the_receiver_still_moves_the_receivers_model() -> None:
    holder, receiver = full_trainer(0), full_trainer(1)
    holder.step(0)
    move(holder.tree, receiver.tree)
    params = [param for group in receiver.parts["optimizer"].param_groups for param in group["params"]]
    assert {id(param) for param in params} == {id(param) for param in receiver.parts["model"].parameters()}


def test_the_learning_rate_in_use_is_the_holders() -> None:
    # M16: a scheduler restored on its own, or rebuilt afterwards, leaves the optimizer with another rate.
    holder, receiver = full_trainer(0), full_trainer(0)
    for index in range(3):
        holder.step(index)
    move(holder.tree, receiver.tree)
    rates = [[group["lr"] for group in one.parts["optimizer"].param_groups] for one in (holder, receiver)]
    assert rates[0] == rates[1] == receiver.parts["scheduler"].get_last_lr()


def test_after_adopting_rollback_leads_to_the_adopted_state() -> None:
    holder, receiver = full_trainer(0), full_trainer(1)
    receiver.tree.capture()
    digest = move(holder.tree, receiver.tree)
    receiver.step(5)
    receiver.tree.rollback()
    assert receiver.tree.digest() == digest


def test_a_transfer_that_breaks_off_can_be_rolled_back_or_done_again() -> None:
    holder, receiver = full_trainer(0), full_trainer(1)
    receiver.tree.capture()
    old = receiver.tree.digest()
    holder.step(0)
    receiver.tree.prepare(holder.tree.manifest())
    for tensor in receiver.tree.tensors():
        tensor.fill_(1)
    receiver.tree.rollback()
    assert receiver.tree.digest() == old
    assert move(holder.tree, receiver.tree) == holder.tree.digest()


def test_missing_bytes_are_found_and_named() -> None:
    holder, receiver = full_trainer(0), full_trainer(1)
    manifest = holder.tree.manifest()
    receiver.tree.prepare(manifest)
    for mine, theirs in zip(receiver.tree.tensors(), holder.tree.tensors(), strict=True):
        mine.copy_(theirs)
    receiver.tree.tensors()[3][0] ^= 1
    with pytest.raises(StateError) as caught:
        receiver.tree.adopt(manifest)
    assert str(caught.value) == (
        "model: the adopted state is not the holder's: model.1.bias: bytes differ\n"
        "  mend: receive it again, from another holder"
    )


def test_adopt_wants_its_own_manifest_prepared() -> None:
    holder, receiver = full_trainer(0), full_trainer(1)
    first = holder.tree.manifest()
    with pytest.raises(StateError, match="was not prepared"):
        receiver.tree.adopt(first)
    receiver.tree.prepare(first)
    holder.step(0)
    with pytest.raises(StateError, match="was not prepared"):
        receiver.tree.adopt(holder.tree.manifest())


class Exponential(nn.Module):
    """An EMA whose decay warms up with a plain Python counter (F59)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.average = copy.deepcopy(model)
        self.updates = 0

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        self.updates += 1
        decay = min(0.99, (1 + self.updates) / (10 + self.updates))
        for mine, param in zip(self.average.parameters(), model.parameters(), strict=True):
            mine.lerp_(param, 1 - decay)


def test_the_counter_of_an_average_moves() -> None:
    def build(seed: int) -> tuple[StateTree, Exponential, nn.Module]:
        torch.manual_seed(seed)
        model = nn.Linear(2, 2)
        ema = Exponential(model)
        return tree_of(model=model, ema=ema), ema, model

    (holder, ema, model), (receiver, other, theirs) = build(0), build(1)
    for _ in range(4):
        ema.update(model)
    move(holder, receiver)
    assert other.updates == 4
    ema.update(model)
    other.update(theirs)
    assert receiver.digest() == holder.digest()


class Pair(collections.namedtuple("Pair", ["left", "right"])):
    pass


Point = collections.namedtuple("Point", ["x", "y"])


class Note:
    """All __dict__."""

    def __init__(self, text: str) -> None:
        self.text = text


class Anything(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.value: Any = None


SHARED = [1, 2]
VALUES: list[Any] = [
    1,
    -0.0,
    "text",
    b"bytes",
    2 + 3j,
    torch.bfloat16,
    (1, (2.0, "x")),
    [1, [2, [3.0]]],
    {"a": {"b": [1]}, 3: None, ("t", 1): (True,)},
    collections.OrderedDict(b=1, a=2),
    collections.defaultdict(list, a=[1]),
    collections.Counter("abca"),
    collections.deque([1, 2], maxlen=3),
    {1, 2, 3},
    frozenset({"x"}),
    torch.Size([2, 3]),
    Point(1, [2]),
    Note("hello"),
    types.SimpleNamespace(a=1, b=[2]),
    argparse.Namespace(rate=0.5),
    [Note("a"), {"note": Note("b")}],
    [SHARED, SHARED],
    torch.arange(3.0),
    [torch.arange(3), torch.ones(2, 2).t()],
    np.arange(6.0).reshape(2, 3),
    np.asfortranarray(np.arange(6).reshape(2, 3)),
    np.float32(1.5),
    {"array": np.zeros(2, dtype=bool), "tensor": torch.zeros((), dtype=torch.bool)},
    [nn.Parameter(torch.ones(2), requires_grad=False)],
]


@pytest.mark.parametrize("index", range(len(VALUES)))
def test_attributes_that_the_receiver_lacks_are_created(index: int) -> None:
    held, received = Anything(), Anything()
    held.late = held.value = copy.deepcopy(VALUES[index])
    receiver = tree_of(model=received)
    digest = move(tree_of(model=held), receiver)
    assert type(received.value) is type(held.value)
    assert repr(received.late) == repr(held.late) or isinstance(held.value, (Note, list))
    receiver.rollback()
    assert receiver.digest() == digest


def test_shared_lists_stay_shared_and_separate_ones_apart() -> None:
    held, received = Anything(), Anything()
    held.value = [SHARED, SHARED, [1, 2]]
    once = [0]
    received.value = [once, [0], once]
    move(tree_of(model=held), tree_of(model=received))
    assert received.value == [[1, 2]] * 3
    assert received.value[0] is received.value[1] is not received.value[2]


def test_containers_of_the_receiver_keep_their_identity() -> None:
    held, received = Anything(), Anything()
    held.value, received.value = {"a": [1, 2], "b": {1}}, {"b": {2}, "a": [7]}
    outer, inner = received.value, received.value["a"]
    move(tree_of(model=held), tree_of(model=received))
    assert received.value is outer
    assert outer == {"a": [1, 2], "b": {1}}
    assert outer["a"] is inner


def test_extra_attributes_and_buffers_are_dropped() -> None:
    held, received = Anything(), Anything()
    held.register_buffer("one", torch.ones(1), persistent=False)
    received.register_buffer("two", torch.ones(1))
    received.extra = 1
    move(tree_of(model=held), tree_of(model=received))
    assert [*dict(received.named_buffers())] == ["one"]
    assert not hasattr(received, "extra")
    assert received.state_dict() == {}


def test_a_buffer_of_another_shape_is_replaced() -> None:
    held, received = Anything(), Anything()
    held.register_buffer("cache", torch.ones(4, 2))
    received.register_buffer("cache", torch.ones(1, 2))
    move(tree_of(model=held), tree_of(model=received))
    assert received.cache.tolist() == held.cache.tolist()


class Average:
    """Known only by state_dict."""

    def __init__(self, value: float) -> None:
        self.parts = {"value": torch.tensor([value]), "count": 0}

    def state_dict(self) -> dict[str, Any]:
        return {key: value.clone() if key == "value" else value for key, value in self.parts.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.parts = state


def test_a_custom_object_gets_the_holders_state_dict() -> None:
    held, received = Average(1.0), Average(2.0)
    held.parts["count"] = 5
    digest = move(tree_of(average=held), tree_of(average=received))
    assert received.parts == {"value": torch.tensor([1.0]), "count": 5}
    assert digest == tree_of(average=received).digest()


def test_a_custom_object_that_loses_state_is_found_out() -> None:
    class Forgetful(Average):
        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.parts["value"] = state["value"]

    held, received = Forgetful(1.0), Forgetful(2.0)
    held.parts["count"] = 5
    with pytest.raises(StateError, match="average: the adopted state is not the holder's"):
        move(tree_of(average=held), tree_of(average=received))


def test_a_group_added_during_training_appears() -> None:
    def build() -> Trainer:
        model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        optimizer = torch.optim.Adam(model[1].parameters())
        return Trainer(
            tree_of(model=model, optimizer=optimizer), {"model": model, "optimizer": optimizer}, print
        )

    holder, receiver = build(), build()
    holder.parts["optimizer"].add_param_group(
        {"params": list(holder.parts["model"][0].parameters()), "lr": 0.5}
    )
    holder.parts["model"](torch.ones(2)).sum().backward()
    holder.parts["optimizer"].step()
    assert move(holder.tree, receiver.tree) == holder.tree.digest()
    groups = receiver.parts["optimizer"].param_groups
    assert groups[1]["params"][0] is receiver.parts["model"][0].weight
    assert len(receiver.parts["optimizer"].state) == 4


def _mismatch(held: dict[str, Any], received: dict[str, Any]) -> str:
    with pytest.raises(StateError) as caught:
        tree_of(**received).prepare(tree_of(**held).manifest())
    return str(caught.value).split("\n")[0]


def test_models_that_differ_are_named() -> None:
    linear = nn.Linear(2, 2)
    assert _mismatch({"model": linear}, {"net": nn.Linear(2, 2)}) == (
        "protect: protects ['net'], the holder protects ['model']"
    )
    assert _mismatch({"model": linear}, {"model": nn.Linear(3, 2)}) == (
        "model.weight: has shape [2, 3], the holder's has [2, 2]"
    )
    assert _mismatch({"model": linear}, {"model": nn.Linear(2, 2).double()}) == (
        "model.weight: is torch.float64, the holder's is torch.float32"
    )
    assert _mismatch({"model": linear}, {"model": nn.Linear(2, 2, bias=False)}) == (
        "model.bias: is a parameter on one rank and None on the other"
    )
    assert _mismatch({"model": nn.Sequential(linear)}, {"model": nn.Sequential()}) == (
        "model: has modules [], the holder has ['0']"
    )
    assert _mismatch({"model": nn.Sequential(linear)}, {"model": nn.Sequential(nn.ReLU())}) == (
        "model.0: is torch.nn.modules.activation:ReLU, the holder has torch.nn.modules.linear:Linear"
    )
    assert _mismatch({"model": nn.BatchNorm1d(2)}, {"model": nn.BatchNorm1d(2).double()}) == (
        "model.weight: is torch.float64, the holder's is torch.float32"
    )


def test_optimizers_that_differ_are_named() -> None:
    models = [nn.Linear(2, 2), nn.Linear(2, 2)]
    held = {"model": models[0], "optimizer": torch.optim.Adam(models[0].parameters())}
    received = {"model": models[1], "optimizer": torch.optim.SGD(models[1].parameters())}
    assert (
        _mismatch(held, received) == "optimizer: is torch.optim.sgd:SGD, the holder has torch.optim.adam:Adam"
    )
    received["optimizer"] = torch.optim.Adam([models[1].weight])
    assert _mismatch(held, received) == "optimizer.param_groups: have [1] parameters, the holder's have [2]"


def test_code_that_differs_is_named() -> None:
    held, received = Anything(), Anything()
    held.value, received.value = torch.relu, torch.sigmoid
    assert "model.value: holder has " in (found := _mismatch({"model": held}, {"model": received}))
    assert "which can't be moved" in found
    del received.value
    assert "this process has nothing" in _mismatch({"model": held}, {"model": received})


def test_another_version_of_the_manifest_is_refused() -> None:
    tree = tree_of(model=nn.Linear(1, 1))
    with pytest.raises(StateError, match="has format 0, this process reads 1"):
        tree.prepare(tree.manifest() | {"format": 0})
