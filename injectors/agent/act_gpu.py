"""Faults of the device that this process computes on, and what a device's failure looks like from here."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from . import cuda

if TYPE_CHECKING:
    from .core import Agent
    from .trigger import Armed

# What an Xid means, and the text of the CUDA error that a process most often meets after it.
XIDS = {
    13: ("graphics engine exception", "unspecified launch failure"),
    31: ("memory page fault", "an illegal memory access was encountered"),
    43: ("the device stopped processing", "unspecified launch failure"),
    48: ("double bit ECC error", "uncorrectable ECC error encountered"),
    74: ("NVLink error", "uncorrectable NVLink error detected during the execution"),
    79: ("the device has fallen off the bus", "unknown error"),
    94: ("contained memory error", "uncorrectable ECC error encountered"),
    95: ("uncontained memory error", "uncorrectable ECC error encountered"),
    119: ("the device's own processor does not answer", "unknown error"),
}
_ASSERTED = "device-side assert"


def stuck_kernel(agent: Agent, armed: Armed) -> None:
    """Occupy the current stream; see `cuda.hold`."""
    cuda.hold(agent, armed, float(armed.params["duration_s"]))


def device_assert(agent: Agent, armed: Armed) -> BaseException | None:
    """Fail an assertion on the device and return the error that came of it."""
    torch: Any = sys.modules["torch"]
    if not cuda.in_use():
        agent.report("failed", armed, "CUDA is not in use in this process", proven=False)
        return None
    error = _error_of(torch, lambda: torch._assert_async(torch.zeros(1, device="cuda")))
    if error is None:
        agent.report("failed", armed, "the device let the assertion pass", proven=False)
        return None
    second = _error_of(torch, lambda: torch.ones(1, device="cuda").add_(1))
    what = f"{type(error).__name__}: {str(error)[:200]}"
    after = "a sound operation still works" if second is None else "a sound operation fails too"
    agent.report(
        "fired",
        armed,
        f"{what}; {after}",
        proven=_ASSERTED in str(error) and second is not None,
        error=type(error).__name__,
        context_lost=second is not None,
    )
    return error


def xid_sim(agent: Agent, armed: Armed) -> BaseException:
    """The error that a process meets after an Xid. No device has failed, and the text says so."""
    number = int(armed.params["xid"])
    meaning, text = XIDS[number]
    torch = sys.modules.get("torch")
    kind: type[BaseException] = getattr(torch, "AcceleratorError", RuntimeError)
    simulated = f"SIMULATED Xid {number} ({meaning})"
    agent.report(
        "fired",
        armed,
        f"{simulated}: raises {kind.__name__} at {agent.phase} of step {agent.step}",
        simulated=True,
        xid=number,
        error=kind.__name__,
    )
    return kind(f"CUDA error: {text}\ntorch-chaos {armed.id}: gpu.xid_sim, {simulated}, raised on purpose")


def _error_of(torch: Any, act: Any) -> BaseException | None:
    """The error of an act on the device, waited for; no traceback, which would keep tensors alive."""
    try:
        act()
        torch.cuda.synchronize()
    except RuntimeError as error:
        return error.with_traceback(None)
    return None
