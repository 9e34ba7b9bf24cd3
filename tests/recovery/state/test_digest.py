"""Digests: equal for equal state, changed by any leaf, the same in every process."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import pytest
import torch
from torch import nn

from recovery.state import differences
from tests.recovery.state.support import Trainer, full_trainer, tree_of


class Phase(enum.Enum):
    WARM = 1
    MAIN = 2


@dataclasses.dataclass
class Settings:
    rate: float = 0.5
    phase: Phase = Phase.WARM


class Rich(nn.Module):
    """One attribute of each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.value: Any = 0


LEAVES: list[Any] = [
    None,
    False,
    True,
    0,
    1,
    2**80,
    0.0,
    -0.0,
    1.0,
    float("nan"),
    float("inf"),
    1e-300,
    1j,
    "",
    "1",
    b"",
    b"1",
    [],
    (),
    {},
    set(),
    frozenset(),
    [0],
    (0,),
    [[0]],
    {0: 1},
    {"0": 1},
    {False: 1},
    {0: 1.0},
    {(0, "a"): 1},
    {0},
    frozenset({0}),
    torch.float32,
    torch.float16,
    torch.Size([1]),
    Phase.WARM,
    Phase.MAIN,
    Settings(),
    Settings(0.25),
    Settings(phase=Phase.MAIN),
    torch.zeros(1),
    torch.zeros(1, 1),
    torch.zeros(1, dtype=torch.float64),
    torch.ones(1),
    torch.relu,
    torch.sigmoid,
]


def test_kinds_and_values_of_leaves_stay_apart() -> None:
    model = Rich()
    tree = tree_of(model=model)
    seen: dict[str, Any] = {}
    for leaf in LEAVES:
        model.value = leaf
        digest = tree.digest().total
        assert digest not in seen, f"{leaf!r} looks like {seen[digest]!r}"
        seen[digest] = leaf
        assert tree.digest().total == digest


def test_the_order_of_a_dict_counts_and_that_of_attributes_does_not() -> None:
    one, other = Rich(), Rich()
    one.value, other.value = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    assert tree_of(model=one).digest() != tree_of(model=other).digest()
    one, other = Rich(), Rich()
    one.a, one.b = 1, 2
    other.b, other.a = 2, 1
    assert tree_of(model=one).digest() == tree_of(model=other).digest()


def test_a_digest_is_equal_in_every_process_and_version() -> None:
    model = Rich()
    model.value = {"floats": [0.5, 1e-3], ("k", 1): {3, 1, 2}, "none": None}
    assert tree_of(model=model).digest().total == "d05425746772e3b47dd52aceaf0c69e9"


def test_parts_say_where_a_difference_is() -> None:
    one, other = full_trainer(0), full_trainer(0)
    assert one.tree.digest() == other.tree.digest()
    other.parts["optimizer"].param_groups[1]["lr"] *= 2
    mine, theirs = one.tree.digest().parts, other.tree.digest().parts
    assert [name for name in mine if mine[name] != theirs[name]] == ["optimizer"]


def test_differences_name_the_paths() -> None:
    one, other = full_trainer(0), full_trainer(0)
    other.parts["optimizer"].param_groups[1]["lr"] = 0.5
    with torch.no_grad():
        other.parts["model"][0].bias[0] += 1
    found = list(differences(one.tree.manifest(), other.tree.manifest()))
    assert found[0] == "model.0.bias: bytes differ"
    assert "0x1.0000000000000p-1" in found[1]


def _leaves(trainer: Trainer) -> list[tuple[str, Any, Any]]:
    """(where, container, key) of every Python number that the parts of a trainer hold."""
    found = []
    model, optimizer = trainer.parts["model"], trainer.parts["optimizer"]
    for name, module in (*model.named_modules(), *trainer.parts["ema"].named_modules()):
        for key, value in module.__dict__.items():
            if type(value) in (int, float, bool, str) and key != "_is_full_backward_hook":
                found.append((f"{name}.{key}", module.__dict__, key))
    for group in optimizer.param_groups:
        found += [(key, group, key) for key, value in group.items() if type(value) in (int, float, bool)]
    for name in ("scheduler", "scaler"):
        values = trainer.parts[name].__dict__
        found += [
            (f"{name}.{key}", values, key)
            for key, value in values.items()
            if type(value) in (int, float, bool, str)
        ]
    return found


def test_any_number_and_any_tensor_element_changes_it() -> None:
    trainer = full_trainer(0)
    for index in range(2):
        trainer.step(index)
    trainer.tree.capture()
    before = trainer.tree.digest().total
    leaves = _leaves(trainer)
    assert len(leaves) > 60
    for where, container, key in leaves:
        old = container[key]
        container[key] = (
            (old + "x") if isinstance(old, str) else (not old if isinstance(old, bool) else old + 1)
        )
        assert trainer.tree.digest().total != before, where
        container[key] = old
    for tensor in trainer.tree.tensors():
        for at in (0, -1):
            tensor[at] ^= 1
            assert trainer.tree.digest().total != before
            tensor[at] ^= 1
    assert trainer.tree.digest().total == before


def test_a_manifest_names_every_tensor() -> None:
    trainer = full_trainer(0)
    trainer.step(0)
    manifest = trainer.tree.manifest()
    paths = {spec["path"] for spec in manifest["tensors"]}
    assert {
        "model.0.weight",
        "model.1.num_batches_tracked",
        "optimizer.state[1][0]['exp_avg']",
        "scaler._scale",
        "ema.n_averaged",
        "ema.module.4.bias",
    } <= paths
    assert sum(region["bytes"] for region in manifest["regions"]) == sum(
        tensor.numel() for tensor in trainer.tree.tensors()
    )


@pytest.mark.parametrize("name", ["model", "optimizer", "scheduler", "scaler", "ema"])
def test_each_part_has_a_digest(name: str) -> None:
    assert len(full_trainer(0).tree.digest().parts[name]) == 32
