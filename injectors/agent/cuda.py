"""A kernel that does not return: the device's own kind of hang.

The kernel spins in the current stream, before the collective, until a word in pinned host memory is set
or its time is up. The host goes on and issues the collective behind it, so the rank looks busy on the
host and never arrives on the device. A thread with a line of its own to the engine sets the word.
Compiled at run time (NVRTC, by torch); where torch can not, a sleep of known length stands in for it
and can not be ended early.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .link import Link

if TYPE_CHECKING:
    from .core import Agent
    from .trigger import Armed

SOURCE = """
extern "C" __global__ void torch_chaos_hold(const volatile int* release, unsigned long long limit_ns) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do {
        if (*release) return;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - start < limit_ns);
}
"""


def in_use() -> bool:
    """Whether this process works with CUDA. Asking must not initialise it."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return cuda is not None and bool(cuda.is_available() and cuda.is_initialized())


def hold(agent: Agent, armed: Armed, limit_s: float) -> None:
    """Occupy the current stream until the engine releases it, the tool is gone or the time is up."""
    torch: Any = sys.modules["torch"]
    if not in_use():
        agent.report("failed", armed, "CUDA is not in use in this process", proven=False)
        return
    try:
        release, way = launch(torch, limit_s), "kernel"
    except Exception as error:
        torch.cuda._sleep(int(limit_s * _cycles_per_second(torch)))
        release, way = _nothing, f"sleep ({error!r})"
    stream = torch.cuda.current_stream()
    agent.report(
        "fired", armed, f"a {way} occupies the stream", mode="device", proven=not stream.query(), way=way
    )
    watch = threading.Thread(
        target=watch_release,
        args=(Link(agent.link.path), armed.id, limit_s, release, stream.synchronize),
        name="torch-chaos-release",
        daemon=True,
    )
    watch.start()


def launch(torch: Any, limit_s: float) -> Callable[[], None]:
    """Launch the kernel in the current stream; returns what ends it."""
    word = torch.zeros(1, dtype=torch.int32, pin_memory=True)
    kernel = torch.cuda._compile_kernel(SOURCE, "torch_chaos_hold")
    # Pinned memory has one address for host and device.
    kernel((1, 1, 1), (1, 1, 1), (word, int(limit_s * 1e9)))

    def release() -> None:
        word.fill_(1)

    return release


def watch_release(
    link: Link, fault: str, limit_s: float, release: Callable[[], None], drain: Callable[[], None]
) -> None:
    """Hold the fault for the engine on a line of its own, end it, and report when the stream has drained."""
    start = time.monotonic()
    reason = "gone"
    if link.connect() and link.send("holding", fault=fault):
        reason = link.wait_undo(fault, limit_s)
    release()
    drain()
    held_s = time.monotonic() - start
    data = {"held_s": held_s, "reason": reason}
    what = f"the stream was held {held_s:.3f} s ({reason})"
    link.send("undone", fault=fault, evidence={"what": what, "proven": True, "data": data})
    link.close()


def _nothing() -> None:
    """A sleep ends by itself."""


def _cycles_per_second(torch: Any) -> float:
    clock_khz = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "clock_rate", None)
    return float(clock_khz) * 1e3 if clock_khz else 1.5e9
