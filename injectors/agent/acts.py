"""Faults that are carried out inside the process, at a phase or an event."""

from __future__ import annotations

import builtins
import ctypes
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import act_clock, act_gpu, act_memory, act_numeric, act_storage

if TYPE_CHECKING:
    from .core import Agent
    from .trigger import Armed

ERRORS = (
    "RuntimeError",
    "ValueError",
    "OSError",
    "ConnectionResetError",
    "MemoryError",
    "OutOfMemoryError",
    "DistBackendError",
    "KeyboardInterrupt",
    "SystemExit",
)
ALLOCATORS = ("torch", "python")
# Raised inside a listener of the runtime these would be an error of the runtime, not of the training code.
NEEDS_USER_CODE = ("process.exception", "process.oom", "gpu.device_assert", "gpu.xid_sim")

_CHUNK_BYTES = 8 << 20
# What the allocator may have in its own free lists, which the limit does not see.
_FREE_LISTS_BYTES = 1 << 30


def perform(agent: Agent, armed: Armed) -> BaseException | None:
    """Carry out a fault, and say so.

    Returns:
        What the caller is to raise in the target. An error of our own is no part of the fault: it is
        reported as failed, and the target goes on.
    """
    act = ACTS.get(armed.name)
    try:
        if act is not None:
            return act(agent, armed)
        problem = f"this agent knows no {armed.name}"
    except Exception as error:
        problem = repr(error)
    agent.report("failed", armed, problem, proven=False)
    return None


def _exception(agent: Agent, armed: Armed) -> BaseException:
    kind = error_class(str(armed.params["error"]))
    agent.report("fired", armed, f"raises {kind.__name__} at {agent.phase} of step {agent.step}")
    return kind(f"torch-chaos {armed.id}: process.exception, raised on purpose")


def error_class(name: str) -> type[BaseException]:
    """The class of an exception in ERRORS; torch's own fall back to what they are derived from."""
    if name in ("OutOfMemoryError", "DistBackendError"):
        torch = sys.modules.get("torch")
        owner: Any = torch if name == "OutOfMemoryError" else getattr(torch, "distributed", None)
        found: type[BaseException] = getattr(owner, name, RuntimeError)
        return found
    kind: type[BaseException] = getattr(builtins, name)
    return kind


def _exit(agent: Agent, armed: Armed) -> None:
    code = int(armed.params["code"])
    agent.report("fired", armed, f"calls os._exit({code})", code=code)
    os._exit(code)


def _gil_lock(agent: Agent, armed: Armed) -> None:
    duration_s = float(armed.params["duration_s"])
    # PyDLL, unlike CDLL, keeps the lock during the call.
    usleep = ctypes.PyDLL(None).usleep
    agent.report("fired", armed, f"calls usleep for {duration_s} s with the lock held", duration_s=duration_s)
    start = time.monotonic()
    usleep(ctypes.c_uint(int(duration_s * 1e6)))
    held_s = time.monotonic() - start
    agent.report("undone", armed, f"the lock was held for {held_s:.3f} s", held_s=held_s)


def _oom(agent: Agent, armed: Armed) -> BaseException | None:
    headroom = int(armed.params["headroom_bytes"])
    take = _taker(str(armed.params["allocator"]))
    taken, failure = exhaust(take, headroom)
    if failure is None:
        agent.report("failed", armed, f"no allocation failed within {taken} bytes", proven=False)
        return None
    what = f"{type(failure).__name__} after {taken} bytes: {str(failure)[:200]}"
    agent.report("fired", armed, what, taken_bytes=taken, error=type(failure).__name__)
    return failure


def _taker(allocator: str) -> Callable[[int], Any]:
    if allocator == "python":
        return bytearray
    torch = sys.modules["torch"]
    return lambda size: torch.empty(size, dtype=torch.uint8)


def exhaust(take: Callable[[int], Any], headroom_bytes: int) -> tuple[int, BaseException | None]:
    """Take memory under a limit on the address space until the allocator gives up; give it all back.

    Args:
        take: allocates that many bytes and returns what holds them.
        headroom_bytes: how far above its present size the process may grow.

    Returns:
        Bytes that were granted, and the allocator's error (None: it never came).
    """
    limits = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    held: list[Any] = []
    failure: BaseException | None = None
    resource.setrlimit(resource.RLIMIT_AS, (used + headroom_bytes, limits[1]))
    try:
        for _ in range((headroom_bytes + _FREE_LISTS_BYTES) // _CHUNK_BYTES):
            held.append(take(_CHUNK_BYTES))
    except (MemoryError, RuntimeError) as error:
        failure = error.with_traceback(None)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    taken = len(held) * _CHUNK_BYTES
    held.clear()
    return taken, failure


ACTS: dict[str, Callable[[Agent, Armed], BaseException | None]] = {
    "process.exception": _exception,
    "process.exit": _exit,
    "process.gil_lock": _gil_lock,
    "process.oom": _oom,
    "host.clock": act_clock.clock,
    "host.memory": act_memory.memory,
    "storage.enospc": act_storage.writing,
    "storage.eio": act_storage.writing,
    "storage.slow": act_storage.writing,
    "storage.torn": act_storage.writing,
    "numeric.bitflip": act_numeric.bitflip,
    "numeric.nan": act_numeric.nan,
    "numeric.scale": act_numeric.scale,
    "gpu.stuck_kernel": act_gpu.stuck_kernel,
    "gpu.device_assert": act_gpu.device_assert,
    "gpu.xid_sim": act_gpu.xid_sim,
}
