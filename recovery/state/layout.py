"""The tensors of a capture: which memory each had, and a private copy of all of it."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from operator import attrgetter

import torch
from torch import Tensor

from recovery.state.memory import (
    as_words,
    check_tensor,
    extent_bytes,
    find_regions,
    is_dense,
    layout_of,
    live_bytes,
)

_TRAITS = attrgetter("requires_grad", "dtype")


class Layout:
    """Distinct tensors, in walk order, and the batches in which their memory is copied.

    Attributes:
        paths, tensors: the distinct tensors; a tensor can be exchanged by `swap`.
    """

    def __init__(self, found: Iterable[tuple[str, Tensor, int]]) -> None:
        """Lay out `(path, tensor, number of places that hold it)`; a tensor may come more than once.

        Raises:
            StateError: a tensor can't be copied exactly.
        """
        places: collections.Counter[int] = collections.Counter()
        distinct: dict[int, tuple[str, Tensor]] = {}
        for path, tensor, count in found:
            places[id(tensor)] += count
            distinct.setdefault(id(tensor), (path, tensor))
        self.paths = [path for path, _ in distinct.values()]
        self.tensors = [tensor for _, tensor in distinct.values()]
        for path, tensor in distinct.values():
            check_tensor(path, tensor)
        self._references = [tensor.detach() for tensor in self.tensors]  # aliases: they remember the memory
        self._traits = [_TRAITS(tensor) for tensor in self.tensors]
        self._storages = collections.Counter(_storage_of(tensor) for tensor in self.tensors)
        self._exchangeable = {
            id(tensor): index for index, tensor in enumerate(self.tensors) if places[id(tensor)] == 1
        }
        self._alone: dict[int, tuple[list[Tensor], int]] = {}  # by tensor: its place among the live regions
        batches: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
        for region in find_regions(self.paths, self.tensors):
            words = as_words(region.raw)
            live = batches.setdefault((words.device, words.dtype), [])
            if len(region.members) == 1:
                self._alone[region.members[0][0]] = (live, len(live))
            live.append(words)
        self._batches = [_Batch(live) for live in batches.values()]

    def holds(self) -> bool:
        """Whether all tensors still have the memory, dtype and gradient flag that they were laid out with."""
        if not all(map(Tensor.is_set_to, self.tensors, self._references)):
            return False
        return list(map(_TRAITS, self.tensors)) == self._traits

    def save(self) -> None:
        """Copy all live memory into the private copy."""
        for batch in self._batches:
            torch.cat(batch.live, out=batch.copy)  # one call, where copying each costs a call apiece

    def restore(self) -> None:
        """Give tensors their memory back, and the memory its bytes; drop gradients and autograd history."""
        for tensor, reference, traits in zip(self.tensors, self._references, self._traits, strict=True):
            requires_grad, dtype = traits
            if tensor.grad_fn is not None:
                tensor.detach_()
            if tensor.grad is not None:
                tensor.grad = None
            if tensor.dtype != dtype or not tensor.is_set_to(reference):
                tensor.data = reference
            if tensor.requires_grad != requires_grad:
                tensor.requires_grad_(requires_grad)
        for batch in self._batches:
            torch._foreach_copy_(batch.live, batch.copy.split([words.numel() for words in batch.live]))
        touch(self.tensors)

    def swap(self, old: Tensor, new: Tensor) -> bool:
        """Let `new` take the place of `old`, if they are alike and share no memory; say whether it did."""
        index = self._exchangeable.get(id(old))
        if index is None or id(new) in self._exchangeable or type(new) is not type(old):
            return False
        if _TRAITS(new) != self._traits[index] or new.grad_fn is not None:
            return False
        if not new.is_set_to(self._references[index]) and not self._swap_memory(index, old, new):
            return False
        del self._exchangeable[id(old)]
        self._exchangeable[id(new)] = index
        self.tensors[index] = new
        return True

    def _swap_memory(self, index: int, old: Tensor, new: Tensor) -> bool:
        if index not in self._alone or not is_dense(new) or _storage_of(new) in self._storages:
            return False
        if new.shape != old.shape or layout_of(new) != layout_of(old) or new.device != old.device:
            return False
        if new.untyped_storage().nbytes() != extent_bytes(new):
            return False
        check_tensor(self.paths[index], new)
        live, at = self._alone[index]
        words = as_words(live_bytes(new))
        if words.dtype != live[at].dtype:
            return False
        self._storages.subtract([_storage_of(self._references[index])])
        self._storages = +self._storages
        self._storages[_storage_of(new)] += 1
        live[at] = words
        self._references[index] = new.detach()
        return True


class _Batch:
    """Regions of one device and width, and their private copy end to end."""

    def __init__(self, live: list[Tensor]) -> None:
        self.live = live
        self.copy = live[0].new_empty(sum(words.numel() for words in live))


def touch(tensors: Iterable[Tensor]) -> None:
    """Tell autograd that tensors were written behind its back."""
    torch.autograd.graph.increment_version([tensor for tensor in tensors if not tensor.is_inference()])


def _storage_of(tensor: Tensor) -> tuple[str, int]:
    return tensor.device.type, tensor.untyped_storage().data_ptr()
