"""Any sequence of changes, captures and rollbacks: the cheap way to notice changes misses none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.recovery.state.support import tree_of


class Odd(nn.Module):
    """A module whose tensors come, go, move and alias."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.ones(3))
        self.second = nn.Parameter(torch.full((3,), 2.0))
        self.register_buffer("left", torch.zeros(3))
        self.register_buffer("right", torch.zeros(3), persistent=False)
        self.plain: Any = torch.zeros(3)
        self.numbers: Any = [0.0, 0.0]
        self.more: Any = self.numbers
        self.count: Any = 0


PLACES = ["first", "second", "left", "right", "plain"]
VALUES: list[Callable[[Odd], Tensor]] = [
    lambda model: torch.full((3,), 5.0),
    lambda model: torch.full((6,), 6.0)[::2],
    lambda model: torch.full((6,), 7.0)[:3],
    lambda model: torch.ones(1).expand(3),
    lambda model: torch.ones(2, 2),
    lambda model: torch.ones(3, dtype=torch.float64),
    lambda model: model.left,
    lambda model: model.first.detach(),
    lambda model: model.plain.detach().view(-1)[1:],
]


def _assign(model: Odd, place: str, value: int) -> None:
    tensor = VALUES[value](model)
    setattr(model, place, nn.Parameter(tensor.detach()) if place in ("first", "second") else tensor)


def _assign_data(model: Odd, place: str, value: int) -> None:
    getattr(model, place).data = VALUES[value](model).data


def _fill(model: Odd, place: str, value: int) -> None:
    memory = torch.empty(0, dtype=torch.uint8).set_(getattr(model, place).detach().untyped_storage())
    memory.bitwise_xor_(value + 1)


def _tie(model: Odd, place: str, value: int) -> None:
    if place in ("first", "second"):
        model.second = model.first
    else:
        model.plain = model.left


def _replace_list(model: Odd, place: str, value: int) -> None:
    model.numbers = [float(value), len(place)]
    if value % 2:
        model.more = model.numbers


def _write_list(model: Odd, place: str, value: int) -> None:
    model.more[0] = float(value) + len(place)


def _grow_list(model: Odd, place: str, value: int) -> None:
    model.numbers.append([place, value])


def _count(model: Odd, place: str, value: int) -> None:
    model.count = [value, float(value), place, (value, place), {place: value}][value % 5]


def _drop(model: Odd, place: str, value: int) -> None:
    model.__dict__.pop(f"extra{value}", None)


def _add(model: Odd, place: str, value: int) -> None:
    setattr(model, f"extra{value}", [place, model.left])


def _register(model: Odd, place: str, value: int) -> None:
    model.register_buffer(f"late{value}", torch.ones(value))


def _freeze(model: Odd, place: str, value: int) -> None:
    model.first.requires_grad_(bool(value % 2))


OPERATIONS = [
    _assign,
    _assign_data,
    _fill,
    _tie,
    _replace_list,
    _write_list,
    _grow_list,
    _count,
    _drop,
    _add,
    _register,
    _freeze,
]
CHANGE = st.tuples(st.sampled_from(OPERATIONS), st.sampled_from(PLACES), st.integers(0, len(VALUES) - 1))


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(rounds=st.lists(st.tuples(st.lists(CHANGE, max_size=4), st.lists(CHANGE, max_size=4)), max_size=6))
def test_no_sequence_of_changes_escapes(rounds: list[tuple[list[Any], list[Any]]]) -> None:
    model = Odd()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    tree = tree_of(model=model, optimizer=optimizer)
    for kept, undone in rounds:
        _apply(model, kept)
        tree.capture()
        before = tree.digest()
        _apply(model, undone)
        tree.rollback()
        assert tree.digest() == before
        _apply(model, undone)
        tree.rollback()
        assert tree.digest() == before


@torch.no_grad()
def _apply(model: Odd, changes: list[Any]) -> None:
    for operation, place, value in changes:
        operation(model, place, value)
