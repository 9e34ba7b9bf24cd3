"""Faults of one collective, carried out where it is issued.

Outer seam (what the user's code sees): the rank is late, leaves one out, issues one too many, or one of
another size. Inner seam (below the runtime under test): the transport fails, or delivers wrong numbers.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from . import act_numeric, cuda
from .link import thread_id

if TYPE_CHECKING:
    from .core import Agent
    from .trigger import Armed

Call = Callable[..., Any]
# The wait is meant to be over long before; a tool that is gone ends it sooner.
_LONGEST_S = 3600.0


def deviate(agent: Agent, armed: Armed, op: str, call: Call) -> Call:
    """Carry out a fault of a collective that is about to be issued.

    Returns:
        What to call in its place, with the same arguments. Where the fault only holds the rank back, or
        acts below the runtime, that is the original itself.
    """
    match armed.name:
        case "collective.hang" | "collective.delay":
            _hold(agent, armed, op)
            return call
        case "collective.error" | "collective.corrupt":
            agent.inner = armed
            return call
        case "collective.skip":
            return functools.partial(_skip, agent, armed, op)
        case "collective.extra":
            return functools.partial(_extra, agent, armed, op, call)
        case "collective.mismatch":
            return functools.partial(_mismatch, agent, armed, op, call)
    agent.report("failed", armed, f"this agent knows no {armed.name}", proven=False)
    return call


def perform_inner(agent: Agent, armed: Armed, call: Call, args: Any, kwargs: Any) -> Any:
    """Carry out a fault below the runtime; returns the Work, or raises as a transport does."""
    name = getattr(call, "__name__", "collective")
    if armed.name == "collective.error":
        agent.report("fired", armed, f"{name} raises where the backend is called")
        raise RuntimeError(f"torch-chaos {armed.id}: collective.error in {name}, raised on purpose")
    return _corrupt(agent, armed, name, call, args, kwargs)


# -- late ---------------------------------------------------------------------------------------------


def _hold(agent: Agent, armed: Armed, op: str) -> None:
    """Do not arrive: wait before the collective, on the host or as a kernel on the device."""
    duration_s = armed.params.get("duration_s")
    limit_s = _LONGEST_S if duration_s is None else float(duration_s)
    mode = str(armed.params.get("mode", "host"))
    if mode == "device" or (mode == "auto" and cuda.in_use()):
        cuda.hold(agent, armed, limit_s)
        return
    agent.report(
        "fired", armed, f"waits before {op}", thread=thread_id(), fd=agent.link.fd, mode="host", collective=op
    )
    start = time.monotonic()
    reason = agent.link.wait_undo(armed.id, limit_s)
    held_s = time.monotonic() - start
    agent.report("undone", armed, f"waited {held_s:.3f} s ({reason})", held_s=held_s, reason=reason)


# -- wrong sequence -----------------------------------------------------------------------------------


def _skip(agent: Agent, armed: Armed, op: str, *args: Any, **kwargs: Any) -> Any:
    """Leave it out: the caller gets a Work that is done, and its tensors as they were."""
    agent.report(
        "fired", armed, f"{op} is not issued", collective=op, tensors=_shapes(args), sum=checksum(args)
    )
    return done_work(args[0] if args else None)


def _extra(agent: Agent, armed: Armed, op: str, call: Call, *args: Any, **kwargs: Any) -> Any:
    """Issue one more of the same shape with other numbers, and do not wait for it: nobody would."""
    value = float(armed.params["value"])
    copies = _copies(args, value)
    work = call(*copies, **kwargs)
    # Until the peers' next collective comes to meet it, the transport works on these tensors.
    agent.kept.append((work, copies))
    agent.report(
        "fired", armed, f"one more {op} was issued", collective=op, tensors=_shapes(args), value=value
    )
    return call(*args, **kwargs)


def _mismatch(agent: Agent, armed: Armed, op: str, call: Call, *args: Any, **kwargs: Any) -> Any:
    """Issue it with a tensor that is longer than the peers'."""
    torch = sys.modules["torch"]
    first = next(_tensors(args), None)
    if first is None:
        agent.report("failed", armed, f"{op} has no tensor", proven=False)
        return call(*args, **kwargs)
    elements = int(armed.params["elements"])
    longer = torch.cat([first.detach().reshape(-1), first.new_zeros(elements)])
    what = f"{op} of {longer.numel()} instead of {first.numel()} elements"
    agent.report("fired", armed, what, collective=op, elements=longer.numel(), expected=first.numel())
    work = call(*_with_first(args, longer), **kwargs)
    if work is not None:
        work.wait()
    first.detach().copy_(longer[: first.numel()].reshape(first.shape))
    return done_work(args[0])


# -- wrong result -------------------------------------------------------------------------------------


def _corrupt(agent: Agent, armed: Armed, name: str, call: Call, args: Any, kwargs: Any) -> Any:
    """Let it complete, then flip a bit of what this rank received."""
    work = call(*args, **kwargs)
    if work is not None:
        work.wait()
    received = [(name, tensor.detach()) for tensor in _tensors(args[:1]) if tensor.is_floating_point()]
    found = act_numeric.cell_at(received, float(armed.params["element"]))
    if found is None:
        agent.report("failed", armed, f"{name} delivers no floating-point number", proven=False)
        return work
    before = checksum(args[:1])
    _, index, cell = found
    old, problem = float(cell), act_numeric.flip(cell, int(armed.params["bit"]))
    after = checksum(args[:1])
    if problem is not None:
        agent.report("failed", armed, problem, proven=False)
        return work
    what = f"element {index} that {name} delivered: {old!r} became {float(cell)!r}"
    agent.report(
        "fired", armed, what, proven=before != after, index=index, sum_before=before, sum_after=after
    )
    return work


# -- helpers ------------------------------------------------------------------------------------------


def done_work(result: Any) -> Any:
    """A Work that is complete, with the tensors that its collective would have returned."""
    torch = sys.modules["torch"]
    base = torch._C._distributed_c10d.Work
    future = torch.futures.Future()
    future.set_result(list(result) if isinstance(result, list | tuple) else [] if result is None else result)

    class Done(base):  # type: ignore[misc, valid-type]
        """Completed before it began."""

        def wait(self, timeout: Any = None) -> bool:
            return True

        def is_completed(self) -> bool:
            return True

        def is_success(self) -> bool:
            return True

        def get_future(self) -> Any:
            return future

        def result(self) -> Any:
            return future.value()

    return Done()


def checksum(value: Any) -> int:
    """CRC-32 of the bytes of all tensors in an argument list."""
    total = 0
    for tensor in _tensors(value):
        data = tensor.detach().cpu().contiguous()
        size = data.numel() * data.element_size()
        if size:
            total = zlib.crc32((ctypes.c_char * size).from_address(data.data_ptr()), total)
    return total


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
    elif hasattr(value, "data_ptr"):
        yield value


def _shapes(args: Any) -> list[list[int]]:
    return [list(tensor.shape) for tensor in _tensors(args)][:16]


def _copies(value: Any, fill: float) -> Any:
    """The same arguments with tensors of their own, filled with one number; options stay the same object."""
    if isinstance(value, list | tuple):
        return type(value)(_copies(item, fill) for item in value)
    return value.detach().clone().fill_(fill) if hasattr(value, "data_ptr") else value


def _with_first(args: Any, tensor: Any) -> list[Any]:
    """The arguments with their first tensor replaced; the tensors are in a list or stand alone."""
    first, rest = args[0], list(args[1:])
    return [[tensor, *first[1:]] if isinstance(first, list | tuple) else tensor, *rest]
