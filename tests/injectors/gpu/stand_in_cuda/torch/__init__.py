"""STAND-IN for torch with CUDA: as much as `injectors/gpu/co_tenant.py` uses. It computes nothing.

What it holds is listed by the stand-in for NVML, on the device that CUDA_VISIBLE_DEVICES names by its UUID.
"""

import os
import time
from pathlib import Path
from types import SimpleNamespace

__version__ = "STAND-IN"
float16, uint8 = "float16", "uint8"
CONTEXT_BYTES = 1 << 20


def _device() -> Path:
    state = Path(os.environ["TORCH_CHAOS_NVML"] + ".state")
    for folder in state.iterdir():
        if (folder / "uuid").read_text().strip() == os.environ["CUDA_VISIBLE_DEVICES"]:
            return folder
    raise RuntimeError("No CUDA GPUs are available")


def _hold(size: int) -> None:
    line = f"{os.getpid()} {size}\n"
    with (_device() / "contexts").open("a") as file:
        file.write(line)


def _mem_get_info() -> tuple[int, int]:
    folder = _device()
    total = int((folder / "memory_bytes").read_text())
    used = 0
    for name in ("processes", "contexts"):
        text = (folder / name).read_text() if (folder / name).exists() else ""
        for line in filter(None, text.splitlines()):
            pid, size = line.split()
            used += int(size) if Path("/proc", pid).exists() else 0
    return total - used, total


class Tensor:
    def fill_(self, value: int) -> "Tensor":
        return self


def ones(shape: tuple[int, int], device: str, dtype: str) -> Tensor:
    assert device == "cuda"
    _hold(CONTEXT_BYTES)
    return Tensor()


def empty(size: int, device: str, dtype: str) -> Tensor:
    assert device == "cuda"
    assert dtype == uint8
    _hold(size)
    return Tensor()


def mm(left: Tensor, right: Tensor) -> Tensor:
    time.sleep(0.001)
    return left


cuda = SimpleNamespace(
    synchronize=lambda: None,
    mem_get_info=_mem_get_info,
    get_device_name=lambda: "STAND-IN CUDA device",
)
