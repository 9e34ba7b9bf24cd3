"""Faults of single numbers: a bit, a NaN, a factor; written past autograd, as a broken memory cell would."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core import Agent
    from .trigger import Armed

TENSORS = ("param", "grad", "exp_avg", "exp_avg_sq", "momentum_buffer")


def bitflip(agent: Agent, armed: Armed) -> None:
    """Flip one bit of one element."""
    bit = int(armed.params["bit"])
    _alter(agent, armed, str(armed.params["tensor"]), lambda cell: flip(cell, bit), bit=bit)


def flip(cell: Any, bit: int) -> str | None:
    """Flip one bit of a 0-d tensor; returns what is wrong, if it can not be done."""
    width = 8 * cell.element_size()
    if not 0 <= bit < width:
        return f"bit {bit} is not in {cell.dtype}, which has {width}"
    torch = sys.modules["torch"]
    kind = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}[width]
    # The highest bit is the sign of the integer type that the mask has.
    mask = (1 << bit) - (1 << width if bit == width - 1 else 0)
    cell.view(kind).bitwise_xor_(mask)
    return None


def nan(agent: Agent, armed: Armed) -> None:
    """Set one element of a gradient to NaN."""

    def write(cell: Any) -> None:
        cell.fill_(float("nan"))

    _alter(agent, armed, "grad", write)


def scale(agent: Agent, armed: Armed) -> None:
    """Multiply every gradient by a factor."""
    factor = float(armed.params["factor"])
    tensors = [tensor for _, tensor in tensors_of(agent, "grad")]
    if not tensors:
        agent.report("failed", armed, "there is no gradient here", proven=False)
        return
    before = _norm(tensors)
    for tensor in tensors:
        tensor.mul_(factor)
    after = _norm(tensors)
    what = f"{len(tensors)} gradients times {factor}: norm {before:.6g} became {after:.6g}"
    agent.report("fired", armed, what, proven=before != after, norm_before=before, norm_after=after)


def _alter(agent: Agent, armed: Armed, kind: str, write: Any, **data: Any) -> None:
    """Write to one element, read it back, report both."""
    found = cell_at(tensors_of(agent, kind), float(armed.params["element"]))
    if found is None:
        agent.report("failed", armed, f"there is no {kind} here", proven=False)
        return
    name, index, cell = found
    before = float(cell)
    problem = write(cell)
    after = float(cell)
    if problem is not None:
        agent.report("failed", armed, problem, proven=False)
        return
    what = f"{kind} of {name}[{index}]: {before!r} became {after!r}"
    # repr: NaN is not equal to itself, and JSON has no NaN.
    seen = {"tensor": name, "index": index, "before": repr(before), "after": repr(after), **data}
    agent.report("fired", armed, what, proven=repr(before) != repr(after), kind=kind, **seen)


def cell_at(tensors: list[tuple[str, Any]], fraction: float) -> tuple[str, int, Any] | None:
    """The element at a fraction in [0, 1) of all elements: its tensor's name, flat index and a 0-d view."""
    total = sum(tensor.numel() for _, tensor in tensors)
    if total == 0:
        return None
    place = min(int(fraction * total), total - 1)
    for name, tensor in tensors:
        if place < tensor.numel():
            return name, place, view_of(tensor, place)
        place -= tensor.numel()
    raise AssertionError("the fraction was inside the total")


def view_of(tensor: Any, index: int) -> Any:
    """A 0-d view of one element, counted in row order whatever the strides are."""
    cell = tensor
    for size in reversed(tensor.shape):
        index, at = divmod(index, size)
        cell = cell.select(cell.dim() - 1, at)
    return cell


def tensors_of(agent: Agent, kind: str) -> list[tuple[str, Any]]:
    """Every floating-point tensor of a kind with its parameter's name, past autograd and sharding."""
    names = _names(agent)
    found = []
    for number, optimizer in enumerate(agent.optimizers):
        for group_number, group in enumerate(optimizer.param_groups):
            for position, param in enumerate(group["params"]):
                tensor = _tensor(optimizer, param, kind)
                if tensor is None or not tensor.is_floating_point():
                    continue
                default = f"optimizer{number}.group{group_number}.{position}"
                local = getattr(tensor, "_local_tensor", tensor)
                # .data: a write must not bump the version counter, which autograd would notice.
                found.append((names.get(id(param), default), local.data))
    return found


def _tensor(optimizer: Any, param: Any, kind: str) -> Any:
    if kind == "param":
        return param
    if kind == "grad":
        return param.grad
    state = optimizer.state.get(param)
    return state.get(kind) if isinstance(state, dict) else None


def _names(agent: Agent) -> dict[int, str]:
    module = agent.module
    return {} if module is None else {id(param): name for name, param in module.named_parameters()}


def _norm(tensors: list[Any]) -> float:
    return float(sum(float(tensor.double().square().sum()) for tensor in tensors) ** 0.5)
