"""Tensors of any dtype, shape, stride and overlap: digested, rolled back and moved exactly."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from recovery.state import StateTree
from tests.recovery.state.support import move, tree_of

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex32,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]
SHAPES = st.lists(st.integers(0, 5), max_size=4).map(tuple)
LAYOUTS = ["plain", "transposed", "expanded", "every second", "offset", "windows", "channels last"]


class Holder(nn.Module):
    """Buffers given by name."""

    def __init__(self, **buffers: Tensor) -> None:
        super().__init__()
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)


def _tensor(dtype: torch.dtype, shape: tuple[int, ...], layout: str, seed: int) -> Tensor:
    def fill(*sizes: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        size = dtype.itemsize
        flat = torch.randint(0, 2 if dtype is torch.bool else 256, (*sizes, size), generator=generator)
        return flat.to(torch.uint8).view(dtype).reshape(sizes)

    match layout:
        case "transposed":
            return fill(*reversed(shape)).permute(tuple(reversed(range(len(shape)))))
        case "expanded":
            return fill(1, *shape[1:]).expand(shape) if shape else fill()
        case "every second":
            return fill(*(2 * size for size in shape))[tuple(slice(None, None, 2) for _ in shape)]
        case "offset":
            return fill(3, *shape)[1]
        case "windows":
            return fill(9).unfold(0, 3, 2)
        case "channels last" if len(shape) == 4:
            # Bytes are permuted as uint8, because not every dtype can be copied into another layout.
            return fill(shape[0], *shape[2:], shape[1]).permute(0, 3, 1, 2)
        case _:
            return fill(*shape)


def _bytes(tensor: Tensor) -> list[int]:
    return tensor.clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8).tolist()


def _change(tensor: Tensor) -> None:
    memory = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    memory.bitwise_xor_(1 if tensor.dtype is torch.bool else 0x55)


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@settings(deadline=None, max_examples=150)
@given(
    dtype=st.sampled_from(DTYPES),
    shape=SHAPES,
    layout=st.sampled_from(LAYOUTS),
    mine=st.sampled_from(LAYOUTS),
)
def test_any_tensor_comes_back_and_moves(
    dtype: torch.dtype, shape: tuple[int, ...], layout: str, mine: str
) -> None:
    held = _tensor(dtype, shape, layout, 1)
    holder = tree_of(model=Holder(buffer=held))
    holder.capture()
    before, values = holder.digest(), _bytes(held)
    _change(held)
    if held.numel():
        assert holder.digest() != before
    holder.rollback()
    assert holder.digest() == before
    assert _bytes(held) == values

    received = Holder(buffer=_tensor(dtype, shape, mine, 2))
    receiver = tree_of(model=received)
    assert move(holder, receiver) == before
    assert received.buffer.shape == held.shape
    assert _bytes(received.buffer) == values


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@given(dtype=st.sampled_from(DTYPES), other=st.sampled_from(DTYPES))
def test_equal_bytes_of_another_dtype_have_another_digest(dtype: torch.dtype, other: torch.dtype) -> None:
    one = tree_of(model=Holder(buffer=torch.zeros(0, dtype=dtype))).digest()
    two = tree_of(model=Holder(buffer=torch.zeros(0, dtype=other))).digest()
    assert (one == two) == (dtype is other)


def test_bytes_land_in_transposed_memory() -> None:
    # M20: a receiver that flattens its buffer first receives into a copy.
    weight = nn.Linear(3, 5)
    weight.weight.data = torch.arange(15.0).view(3, 5).t()
    received = nn.Linear(3, 5)
    received.weight.data = torch.zeros(3, 5).t()
    memory = received.weight.data_ptr()
    move(tree_of(model=weight), tree_of(model=received))
    assert torch.equal(received.weight, weight.weight)
    assert received.weight.data_ptr() == memory


def _overlapping(seed: int) -> Holder:
    base = _tensor(torch.float32, (6,), "plain", seed)
    return Holder(base=base, row=base[2:4], apart=torch.zeros(2), words=base.view(torch.int32)[4:])


def test_overlapping_tensors_move_once_and_still_overlap() -> None:
    holder, apart = tree_of(model=_overlapping(1)), _overlapping(2)
    for name in ("row", "words"):
        setattr(apart, name, getattr(apart, name).clone())
    receiver = tree_of(model=apart)
    assert holder.digest() != tree_of(model=_separate(_overlapping(1))).digest()
    assert [tensor.numel() for tensor in holder.tensors()] == [24, 8]
    assert move(holder, receiver) == holder.digest()
    apart.base.fill_(3)
    assert apart.row.tolist() == [3.0, 3.0]
    receiver.rollback()
    assert receiver.digest() == holder.digest()


def _separate(model: Holder) -> Holder:
    model.row = model.row.clone()
    model.words = model.words.clone()
    return model


def test_neighbours_in_one_storage_are_apart() -> None:
    flat = torch.arange(6.0)
    held = Holder(left=flat[:3], right=flat[3:])
    apart = Holder(left=torch.arange(3.0), right=torch.arange(3.0, 6.0))
    assert tree_of(model=held).digest() == tree_of(model=apart).digest()


def test_ties_are_part_of_the_digest_and_move() -> None:
    def build(tied: bool) -> nn.Sequential:
        model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
        nn.init.ones_(model[0].weight)
        nn.init.ones_(model[1].weight)
        if tied:
            model[1].weight = model[0].weight
        return model

    tied, separate = build(True), build(False)
    digest = tree_of(model=tied).digest()
    assert digest != tree_of(model=separate).digest()
    assert move(tree_of(model=tied), tree_of(model=separate)) == digest
    assert separate[1].weight is separate[0].weight
    untied = build(True)
    move(tree_of(model=build(False)), tree_of(model=untied))
    assert untied[1].weight is not untied[0].weight


def test_gaps_between_elements_are_not_digested() -> None:
    base = torch.zeros(6)
    tree = tree_of(model=Holder(buffer=base[::2]))
    before = tree.digest()
    base[1] = 5
    assert tree.digest() == before
    base[2] = 5
    assert tree.digest() != before


@pytest.mark.parametrize("holders", [1, 2, 5])
def test_big_tensors_travel_in_stripes(holders: int) -> None:
    trees: list[StateTree] = []
    for seed in range(2):
        torch.manual_seed(seed)
        trees.append(tree_of(model=nn.Linear(300, 400)))
    assert move(trees[0], trees[1], holders) == trees[0].digest()
