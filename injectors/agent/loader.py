"""Batches of a torch DataLoader, met when the training code asks for one.

Every loader, with worker processes or without, hands out its batches through one method. What waits there is
late (`data.slow`) or spoils the batch (`data.bad_batch`); the worker processes themselves take no part.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .link import thread_id
from .trigger import Point

if TYPE_CHECKING:
    from .core import Agent
    from .trigger import Armed

# The wait is meant to be over long before; a tool that is gone ends it sooner.
_LONGEST_S = 3600.0
# In every number type: no class, token or index is this large, and no network takes such an input.
_FAR_OUT = {"float": 1e30, "int": 2**31 - 1}


def install(agent: Agent, module: Any) -> None:
    """Hook the iterator that all loaders share."""
    kind = module._BaseDataLoaderIter
    original = kind.__next__

    @functools.wraps(original)
    def take(iterator: Any) -> Any:
        batch = original(iterator)
        if not agent.hot and (agent.awake or not agent.wake()):
            return batch
        return meet(agent, batch, int(iterator._num_workers))

    kind.__next__ = take
    agent.hooks.append("data loader")


def meet(agent: Agent, batch: Any, workers: int) -> Any:
    """Meet what waits for a batch; returns the batch that training gets."""
    armed = agent.visit(Point("batch", agent.step, "data"))
    if armed is None:
        return batch
    if armed.name == "data.slow":
        _hold(agent, armed, workers)
        return batch
    return _spoil(agent, armed, batch)


def _hold(agent: Agent, armed: Armed, workers: int) -> None:
    """Keep the batch back; the loader's workers go on meanwhile, as they do when only one is slow."""
    limit_s = float(armed.params["duration_s"])
    what = f"a batch is kept back for {limit_s:g} s, from a loader with {workers} workers"
    agent.report("fired", armed, what, thread=thread_id(), fd=agent.link.fd, mode="host", workers=workers)
    start = time.monotonic()
    reason = agent.link.wait_undo(armed.id, min(limit_s, _LONGEST_S))
    held_s = time.monotonic() - start
    agent.report(
        "undone", armed, f"the batch came {held_s:.3f} s late ({reason})", held_s=held_s, reason=reason
    )


def _spoil(agent: Agent, armed: Armed, batch: Any) -> Any:
    how = str(armed.params["how"])
    try:
        spoiled, what = SPOILERS[how](batch)
    except LookupError as problem:
        agent.report("failed", armed, str(problem.args[0]), proven=False)
        return batch
    before, after = outline(batch), outline(spoiled)
    agent.report("fired", armed, what, proven=before != after, how=how, before=before, after=after)
    return spoiled


# -- ways to spoil a batch; each returns a new one, for the loader may hand the same tensors out again ------


def _nan(batch: Any) -> tuple[Any, str]:
    return _fill_sample(batch, float("nan"))


def _inf(batch: Any) -> tuple[Any, str]:
    return _fill_sample(batch, float("inf"))


def _fill_sample(batch: Any, value: float) -> tuple[Any, str]:
    tensor = _first(batch, lambda found: found.is_floating_point(), "floating-point tensor")
    sample = tensor.clone()
    sample[:1] = value
    return _replaced(batch, tensor, sample), f"the first sample of {_shape(tensor)} is {value}"


def _out_of_range(batch: Any) -> tuple[Any, str]:
    """A label or token that no table has; where a batch has only numbers, one that is far too large."""

    def is_whole(found: Any) -> bool:
        return not found.is_floating_point() and not found.is_complex() and found.element_size() > 1

    try:
        tensor, value = _first(batch, is_whole, ""), _FAR_OUT["int"]
    except LookupError:
        tensor = _first(batch, lambda found: found.is_floating_point(), "tensor of numbers")
        value = _FAR_OUT["float"]
    torch = sys.modules["torch"]
    limits = torch.finfo(tensor.dtype) if tensor.is_floating_point() else torch.iinfo(tensor.dtype)
    value = min(value, limits.max)
    changed = tensor.clone()
    changed.view(-1)[0] = value
    return _replaced(batch, tensor, changed), f"the first element of {_shape(tensor)} is {value}"


def _empty(batch: Any) -> tuple[Any, str]:
    _first(batch, lambda found: found.dim() > 0, "tensor with samples")
    return _mapped(batch, lambda found: found[:0] if found.dim() else found), "the batch has no sample"


SPOILERS: dict[str, Callable[[Any], tuple[Any, str]]] = {
    "nan": _nan,
    "inf": _inf,
    "out_of_range": _out_of_range,
    "empty": _empty,
}


def outline(batch: Any) -> list[str]:
    """Shape, type, least and greatest of every tensor of a batch: enough to see it change."""
    lines = []
    for tensor in _tensors(batch):
        text = _shape(tensor)
        if tensor.numel() and not tensor.is_complex():
            text += f" {tensor.min().item()!r}..{tensor.max().item()!r}"
        lines.append(text)
    return lines[:16]


def _first(batch: Any, wanted: Callable[[Any], bool], name: str) -> Any:
    for tensor in _tensors(batch):
        if tensor.numel() and wanted(tensor):
            return tensor
    raise LookupError(f"this batch has no {name}: {type(batch).__name__}")


def _tensors(value: Any) -> list[Any]:
    found: list[Any] = []

    def note(tensor: Any) -> Any:
        found.append(tensor)
        return tensor

    _mapped(value, note)
    return found


def _replaced(batch: Any, old: Any, new: Any) -> Any:
    return _mapped(batch, lambda tensor: new if tensor is old else tensor)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same nest of lists, tuples, named tuples and dictionaries with other tensors."""
    if isinstance(value, dict):
        return type(value)({key: _mapped(item, change) for key, item in value.items()})
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(item, change) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(_mapped(item, change) for item in value)
    return change(value) if hasattr(value, "data_ptr") else value


def _shape(tensor: Any) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
