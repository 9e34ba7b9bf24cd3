"""Capture and rollback: a step leaves no trace, objects keep their identity."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from recovery.state import StateError, StateTree
from tests.recovery.state.support import full_trainer, tree_of


def test_a_step_that_is_rolled_back_leaves_no_trace() -> None:
    trainer = full_trainer(0)
    for index in range(4):
        trainer.tree.capture()
        before = trainer.tree.digest()
        trainer.step(index)
        assert trainer.tree.digest() != before
        trainer.tree.rollback()
        assert trainer.tree.digest() == before
        trainer.tree.rollback()  # may be repeated
        assert trainer.tree.digest() == before
        trainer.step(index)


def test_replayed_steps_equal_undisturbed_ones() -> None:
    disturbed, calm = full_trainer(0), full_trainer(0)
    for index in range(5):
        disturbed.tree.capture()
        disturbed.step(index + 100)
        disturbed.tree.rollback()
        disturbed.step(index)
        calm.step(index)
    assert disturbed.tree.digest() == calm.tree.digest()


def test_rollback_before_the_first_capture_is_an_error() -> None:
    with pytest.raises(StateError, match="rollback: nothing was captured"):
        tree_of(model=nn.Linear(2, 2)).rollback()


def test_optimizer_state_that_did_not_exist_is_removed() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    tree = tree_of(model=model, optimizer=optimizer)
    before = copy.deepcopy(optimizer.state_dict())
    tree.capture()
    model(torch.ones(2)).sum().backward()
    optimizer.step()
    tree.rollback()
    assert optimizer.state_dict() == before
    assert optimizer.state_dict()["state"] == {}


def test_a_snapshot_does_not_follow_the_live_state() -> None:
    # M15: a kept state_dict() is mutated by the next optimizer step.
    model = nn.Linear(3, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    tree = tree_of(model=model, optimizer=optimizer)
    model(torch.ones(3)).sum().backward()
    optimizer.step()
    tree.capture()
    weight, moments = model.weight.clone(), copy.deepcopy(optimizer.state_dict())
    for _ in range(3):
        optimizer.step()
    tree.rollback()
    assert torch.equal(model.weight, weight)
    assert str(optimizer.state_dict()) == str(moments)


def test_the_learning_rate_of_the_optimizer_comes_back() -> None:
    # M16: the scheduler alone says one thing while the optimizer uses another.
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    tree = tree_of(scheduler=scheduler, optimizer=optimizer, model=model)
    optimizer.step()
    scheduler.step()
    tree.capture()
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.25
    tree.rollback()
    assert optimizer.param_groups[0]["lr"] == 0.5 == scheduler.get_last_lr()[0]


def test_gradients_are_dropped_and_unfinished_ones_named() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, bias=False))
    tree = tree_of(model=model)
    assert tree.unfinished_gradients() == []
    model(torch.ones(2)).sum().backward()
    assert tree.unfinished_gradients() == ["model.0.weight", "model.0.bias", "model.1.weight"]
    tree.capture()
    tree.rollback()
    assert [param.grad for param in model.parameters()] == [None, None, None]
    assert tree.unfinished_gradients() == []


class Odd(nn.Module):
    """Everything that state_dict() leaves out."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("hidden", torch.zeros(3), persistent=False)
        self.register_buffer("missing", None)
        self.plain = torch.zeros(2)
        self.array = np.zeros(3)
        self.updates = 0
        self.phase = "warm-up"
        self.history: list[float] = []
        self.table = {"a": [1, 2], ("b", 1): {3}}


def _reassign_buffer(model: Odd) -> None:
    model.hidden = model.hidden + 1


def _reassign_parameter(model: Odd) -> None:
    model.weight = nn.Parameter(torch.zeros(3))


def _reassign_data(model: Odd) -> None:
    model.weight.data = torch.zeros(5)


def _widen_data(model: Odd) -> None:
    model.weight.data = model.weight.data.double()


def _freeze(model: Odd) -> None:
    model.weight.requires_grad_(False)


def _fill_buffer(model: Odd) -> None:
    model.missing = torch.ones(1)


def _track_history(model: Odd) -> None:
    model.hidden.mul_(model.weight)


def _write_plain(model: Odd) -> None:
    model.plain.add_(1)


def _replace_plain(model: Odd) -> None:
    model.plain = torch.ones(7)


def _write_array(model: Odd) -> None:
    model.array += 1


def _count(model: Odd) -> None:
    model.updates += 1


def _rename(model: Odd) -> None:
    model.phase = "main"


def _append(model: Odd) -> None:
    model.history.append(0.5)


def _nest(model: Odd) -> None:
    model.table["a"][0] = 9
    model.table["b", 1].add(4)
    model.table["c"] = None


def _add_attribute(model: Odd) -> None:
    model.extra = 1


def _delete_attribute(model: Odd) -> None:
    del model.phase


def _add_module(model: Odd) -> None:
    model.late = nn.Linear(1, 1)


def _register_buffer(model: Odd) -> None:
    model.register_buffer("late", torch.ones(1))


def _switch_mode(model: Odd) -> None:
    model.eval()


CHANGES = [
    _reassign_buffer,
    _reassign_parameter,
    _reassign_data,
    _widen_data,
    _freeze,
    _fill_buffer,
    _track_history,
    _write_plain,
    _replace_plain,
    _write_array,
    _count,
    _rename,
    _append,
    _nest,
    _add_attribute,
    _delete_attribute,
    _add_module,
    _register_buffer,
    _switch_mode,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
def test_every_change_is_seen_and_undone(change: Callable[[Odd], None]) -> None:
    model = Odd()
    objects = [model.weight, model.hidden, model.plain, model.array, model.history, model.table]
    tree = tree_of(model=model)
    tree.capture()
    before = tree.digest()
    change(model)
    if change is not _track_history:  # autograd history on a buffer is refused, not digested
        assert tree.digest() != before
    tree.rollback()
    assert tree.digest() == before
    after = [model.weight, model.hidden, model.plain, model.array, model.history, model.table]
    assert all(old is new for old, new in zip(objects, after, strict=True))
    assert model.hidden.grad_fn is None


@pytest.mark.parametrize(
    "change",
    [change for change in CHANGES if change is not _track_history],
    ids=lambda change: change.__name__.strip("_"),
)
def test_every_change_is_in_the_next_capture(change: Callable[[Odd], None]) -> None:
    model = Odd()
    tree = tree_of(model=model)
    tree.capture()
    for _ in range(2):
        if change is _delete_attribute:
            model.phase = "warm-up"
        change(model)
        tree.capture()
        captured = tree.digest()
        with torch.no_grad():
            for tensor in (*model.parameters(), *model.buffers(), model.plain):
                tensor.fill_(7)
        model.updates = -1
        tree.rollback()
        assert tree.digest() == captured


def test_buffers_assigned_anew_each_step_are_followed() -> None:
    model = Odd()
    tree = tree_of(model=model)
    for index in range(4):
        tree.capture()
        assert model.hidden.tolist() == [index] * 3
        _reassign_buffer(model)
        tree.rollback()
        assert model.hidden.tolist() == [index] * 3
        _reassign_buffer(model)


def test_a_new_buffer_that_is_a_view_of_a_parameter_stays_one() -> None:
    model = Odd()
    tree = tree_of(model=model)
    tree.capture()
    model.hidden = model.weight.detach()
    tree.capture()
    before = tree.digest()
    with torch.no_grad():
        model.weight.fill_(5)
    assert model.hidden.tolist() == [5] * 3
    tree.rollback()
    assert tree.digest() == before
    assert model.hidden.data_ptr() == model.weight.data_ptr()


def test_a_parameter_replaced_in_the_model_stays_captured_for_the_optimizer() -> None:
    model = Odd()
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    old = model.weight
    tree = tree_of(model=model, optimizer=optimizer)
    tree.capture()
    _reassign_parameter(model)
    tree.capture()
    with torch.no_grad():
        old.fill_(4)
        model.weight.fill_(4)
    tree.rollback()
    assert old.tolist() == [1] * 3
    assert model.weight.tolist() == [0] * 3


def test_ties_hold_after_rollback() -> None:
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    model[1].weight = model[0].weight
    tree = tree_of(model=model)
    tree.capture()
    model[1].weight = nn.Parameter(torch.zeros(5, 3))
    tree.rollback()
    assert model[1].weight is model[0].weight
    assert len(tree.tensors()) == 1


def test_two_optimizers_over_one_model() -> None:
    model = nn.Linear(2, 2)
    optimizers = [torch.optim.Adam(model.parameters()), torch.optim.SGD(model.parameters(), 0.1, 0.9)]
    tree = tree_of(model=model, first=optimizers[0], second=optimizers[1])
    for _ in range(3):
        tree.capture()
        before = tree.digest()
        for optimizer in optimizers:
            model(torch.ones(2)).sum().backward()
            optimizer.step()
        tree.rollback()
        assert tree.digest() == before
        for optimizer in optimizers:
            model(torch.ones(2)).sum().backward()
            optimizer.step()


def test_a_learning_rate_in_a_tensor_comes_back_in_place() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.5), foreach=False)
    rate = optimizer.param_groups[0]["lr"]
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    tree = tree_of(model=model, optimizer=optimizer, scheduler=scheduler)
    tree.capture()
    optimizer.step()
    scheduler.step()
    assert float(rate) == 0.25
    tree.rollback()
    assert optimizer.param_groups[0]["lr"] is rate
    assert float(rate) == 0.5


class CopyingAverage:
    """Known only by state_dict; hands out copies and loads by assignment."""

    def __init__(self, model: nn.Module) -> None:
        self._average = [param.detach().clone() for param in model.parameters()]
        self._updates = 0

    def update(self, model: nn.Module) -> None:
        self._updates += 1
        for mine, param in zip(self._average, model.parameters(), strict=True):
            mine.lerp_(param.detach(), 0.5)

    def state_dict(self) -> dict[str, object]:
        return {"average": [mine.clone() for mine in self._average], "updates": self._updates}

    def load_state_dict(self, state: dict[str, object]) -> None:
        self._average, self._updates = state["average"], state["updates"]


class LiveAverage(CopyingAverage):
    """Hands out its live tensors."""

    def state_dict(self) -> dict[str, object]:
        return {"average": self._average, "updates": self._updates}


@pytest.mark.parametrize("kind", [CopyingAverage, LiveAverage])
def test_objects_known_only_by_their_state_dict(kind: type[CopyingAverage]) -> None:
    model = nn.Linear(2, 2)
    average = kind(model)
    tree = tree_of(model=model, average=average)
    for _ in range(3):
        tree.capture()
        before = tree.digest()
        nn.init.normal_(model.weight)
        average.update(model)
        assert tree.digest() != before
        tree.rollback()
        assert tree.digest() == before
        average.update(model)
        with torch.no_grad():
            model.weight.add_(1)


def test_sync_buffers_gives_the_live_buffers_of_now() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2), Odd())
    expanded = torch.zeros(1).expand(4)
    model.register_buffer("wide", expanded)
    tree = tree_of(model=model, optimizer=torch.optim.SGD(model.parameters(), 0.1))
    tree.capture()
    _reassign_buffer(model[1])
    found = tree.sync_buffers()
    names = [model[0].running_mean, model[0].running_var, model[0].num_batches_tracked, model[1].hidden]
    assert all(any(buffer is one for one in found) for buffer in names)
    assert len(found) == 5
    for buffer in found:
        buffer.fill_(1)  # the expanded one comes as its memory: writing to it must be possible
    assert model[0].num_batches_tracked == 1


def test_derived_weights_of_old_style_hooks_are_not_refused() -> None:
    model = nn.Sequential(
        nn.utils.spectral_norm(nn.Linear(3, 3)), nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
    )
    tree = tree_of(model=model)
    for index in range(3):
        tree.capture()
        before = tree.digest()
        model(torch.full((2, 3), float(index + 1))).sum().backward()
        tree.rollback()
        assert tree.digest() == before
        model(torch.full((2, 3), float(index + 1)))


def test_an_ignored_attribute_is_left_alone() -> None:
    class Logging(nn.Module):
        recovery_ignored = ("seen",)

        def __init__(self) -> None:
            super().__init__()
            self.seen = iter([1, 2])

    model = Logging()
    tree = StateTree()
    tree.add("model", model)
    tree.capture()
    before = tree.digest()
    model.seen = later = iter([3])
    tree.rollback()
    assert model.seen is later
    assert tree.digest() == before


def test_a_list_held_twice_stays_captured_when_one_place_gets_another() -> None:
    model = Odd()
    model.history = model.table = [1.0, 2.0]
    tree = tree_of(model=model)
    tree.capture()
    model.history = [3.0, 4.0]
    tree.capture()
    model.table[0] = model.history[0] = 9.0
    tree.rollback()
    assert (model.history, model.table) == ([3.0, 4.0], [1.0, 2.0])
