"""STAND-IN for the CUDA of a torch that was built without: it lets the device script be run where no device
is.

Tensors stay on the CPU. What a fault does to a device is played: a stream that is held until a word is set, a
context that is lost after a failed assertion. Nothing that passes here has been seen on a device.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

NAME = "STAND-IN CUDA device"


class Stream:
    """Busy until the word that its kernel watches is set, or its time is up."""

    def __init__(self) -> None:
        self._word: Any = None
        self._until = 0.0

    def hold(self, word: Any, limit_ns: int) -> None:
        self._word, self._until = word, time.monotonic() + limit_ns / 1e9

    def query(self) -> bool:
        return self._word is None or bool(self._word.item()) or time.monotonic() > self._until

    def synchronize(self) -> None:
        pause = threading.Event()
        while not self.query():
            pause.wait(0.002)


class Context:
    """The process's one context; lost for good when an assertion has failed in it."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._lost = False
        self.stream = Stream()

    def fail(self, value: Any) -> None:
        self._lost = self._lost or not bool(value.item())

    def synchronize(self) -> None:
        self.stream.synchronize()
        if self._lost:
            raise self._torch.AcceleratorError("CUDA error: device-side assert triggered")


def install(torch: Any) -> None:
    """Put it in place of `torch.cuda`, in this process alone."""
    context = Context(torch)
    _list_in_nvml()
    parts = {
        "init": lambda: None,
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "synchronize": context.synchronize,
        "current_stream": lambda: context.stream,
        "current_device": lambda: 0,
        "get_device_name": lambda: NAME,
        "get_device_properties": lambda device: SimpleNamespace(clock_rate=1_000_000),
        "_compile_kernel": lambda source, name: lambda grid, block, args: context.stream.hold(*args),
    }
    for name, part in parts.items():
        setattr(torch.cuda, name, part)
    torch._assert_async = context.fail
    for name in ("zeros", "ones"):
        setattr(torch, name, _on_cpu(getattr(torch, name)))


def _on_cpu(make: Any) -> Any:
    def made(*args: Any, pin_memory: bool = False, device: Any = None, **kwargs: Any) -> Any:
        return make(*args, device="cpu" if str(device).startswith("cuda") else device, **kwargs)

    return made


def _list_in_nvml() -> None:
    """Be listed by the stand-in for NVML, on the device that this process sees."""
    state = Path(os.environ["TORCH_CHAOS_NVML"] + ".state")
    for folder in state.iterdir():
        if (folder / "uuid").read_text().strip() == os.environ["CUDA_VISIBLE_DEVICES"]:
            with (folder / "contexts").open("a") as file:
                file.write(f"{os.getpid()} {1 << 20}\n")
