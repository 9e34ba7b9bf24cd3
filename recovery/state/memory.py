"""Tensors as regions of memory: the unit that is copied, cut into stripes and moved.

Tensors whose memory overlaps (tied weights, views, expanded tensors) share one region, so aliasing is a fact
of the layout and each byte is carried once. A region is viewed as raw bytes in memory order; as holder and
receiver agree on shapes and strides, transposed and expanded tensors land right without any copy. Where a
strided tensor has gaps, the bytes of the gaps travel along; the digest leaves them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from recovery.state.errors import StateError

_PLAIN_DISPATCH = Tensor.__torch_dispatch__


@dataclass(frozen=True)
class Region:
    """A span of memory.

    Attributes:
        raw: its bytes, uint8 [num_bytes], sharing memory with the members.
        members: (index of the tensor, offset of its first byte in the region), in walk order.
    """

    raw: Tensor
    members: tuple[tuple[int, int], ...]


class Span(NamedTuple):
    """Addresses [start, stop) and the members of a region, as in `Region`."""

    start: int
    stop: int
    members: tuple[tuple[int, int], ...]


def check_tensor(path: str, tensor: Tensor) -> None:
    """Raise StateError when the bytes of `tensor` are not all there is to it."""
    problem, mend = "", ""
    if is_lazy(tensor):
        problem, mend = "is not initialised yet", "run one forward pass before protect()"
    elif type(tensor).__torch_dispatch__ is not _PLAIN_DISPATCH or not isinstance(tensor, Tensor):
        problem, mend = (
            f"is a {type(tensor).__name__}, not a plain tensor",
            "protect the plain tensors that it wraps",
        )
    elif tensor.layout != torch.strided or tensor.is_nested:
        problem, mend = f"has layout {tensor.layout}, which is not copied exactly", "keep it dense"
    elif tensor.is_quantized:
        problem, mend = (
            f"is quantised ({tensor.dtype}), which is not copied exactly",
            "keep its int_repr() and scale",
        )
    elif tensor.device.type == "meta":
        problem, mend = (
            "is on the meta device and has no bytes",
            "give it memory with to_empty() before protect()",
        )
    elif tensor.is_conj() or tensor.is_neg():
        problem, mend = "is a lazy conjugate or negative view", "store .resolve_conj().resolve_neg() instead"
    elif tensor.grad_fn is not None:
        problem, mend = (
            "carries autograd history, which can't be copied",
            "store .detach() of it, or None at step end",
        )
    if problem:
        raise StateError(path, problem, mend)


def layout_of(tensor: Tensor) -> list[int]:
    """Strides in elements, 0 where a dimension of size 0 or 1 makes them meaningless."""
    if tensor.numel() == 0:
        return [0] * tensor.dim()
    return [stride if size > 1 else 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]


def extent_bytes(tensor: Tensor) -> int:
    """Bytes from the first to the last element, gaps included."""
    if tensor.numel() == 0 or tensor.is_contiguous():
        return tensor.nbytes
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def raw_bytes(tensor: Tensor, start: int, num_bytes: int) -> Tensor:
    """View `num_bytes` of memory as uint8, `start` bytes after the first element of `tensor`."""
    offset = tensor.storage_offset() * tensor.element_size() + start
    raw = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return raw.set_(tensor.untyped_storage(), offset, (num_bytes,), (1,))


def view_raw(
    raw: Tensor, offset: int, dtype: torch.dtype, shape: Sequence[int], stride: Sequence[int]
) -> Tensor:
    """View raw bytes as a tensor that begins `offset` bytes into them."""
    itemsize = dtype.itemsize
    start = raw.storage_offset() + offset
    assert start % itemsize == 0
    empty = torch.empty(0, dtype=dtype, device=raw.device)
    return empty.set_(raw.untyped_storage(), start // itemsize, tuple(shape), tuple(stride))


def is_dense(tensor: Tensor) -> bool:
    """Whether the elements fill the extent, each byte once."""
    if tensor.is_contiguous():
        return True
    return extent_bytes(tensor) == tensor.numel() * tensor.element_size() and _injective(tensor)


def live_bytes(tensor: Tensor) -> Tensor:
    """The memory of one tensor as uint8 [extent], whatever its dtype, strides or overlap."""
    return raw_bytes(tensor.detach(), 0, extent_bytes(tensor))


def find_regions(paths: Sequence[str], tensors: Sequence[Tensor]) -> list[Region]:
    """Group tensors by overlapping memory, in the order of the first member; empty tensors are in none."""
    return [Region(_raw_of(paths, tensors, span), span.members) for span in find_spans(tensors)]


def find_spans(tensors: Sequence[Tensor]) -> list[Span]:
    """Where the regions of `find_regions` are, without a view of their memory."""
    places = []
    for index, tensor in enumerate(tensors):
        size = extent_bytes(tensor)
        if size:
            start = tensor.data_ptr()
            places.append((str(tensor.device), start, start + size, index))
    places.sort()
    groups: list[list[tuple[str, int, int, int]]] = []
    reached = ("", 0)
    for place in places:
        device, start, stop, _ = place
        if groups and device == reached[0] and start < reached[1]:
            groups[-1].append(place)
            reached = (device, max(stop, reached[1]))
        else:
            groups.append([place])
            reached = (device, stop)
    spans = []
    for group in groups:
        first = group[0][1]
        members = tuple(sorted((index, start - first) for _, start, _, index in group))
        spans.append(Span(first, max(place[2] for place in group), members))
    return sorted(spans, key=lambda span: span.members[0][0])


def as_words(raw: Tensor) -> Tensor:
    """View raw bytes as int64 where they allow it: copies on accelerators are faster in words."""
    aligned = raw.storage_offset() % 8 == 0 and raw.numel() % 8 == 0 and raw.data_ptr() % 8 == 0
    return raw.view(torch.int64) if aligned else raw


def _raw_of(paths: Sequence[str], tensors: Sequence[Tensor], span: Span) -> Tensor:
    for index, offset in span.members:
        tensor = tensors[index].detach()
        storage = tensor.untyped_storage()
        if storage.data_ptr() <= span.start and span.stop <= storage.data_ptr() + storage.nbytes():
            return raw_bytes(tensor, -offset, span.stop - span.start)
    raise StateError(paths[span.members[0][0]], "overlaps memory of another storage", "copy one of the two")


def _injective(tensor: Tensor) -> bool:
    expected = 1
    dims = sorted(
        (stride, size) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1
    )
    for stride, size in dims:
        if stride != expected:
            return False
        expected *= size
    return True
