"""The real nvidia-ml-py, pointed to a stand-in for the driver's library."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from injectors.fault import Victim
from tests.injectors.gpu import stand_in
from tests.injectors.gpu.stand_in import StandIn


@pytest.fixture(scope="session")
def stand_in_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = stand_in.compile_library(tmp_path_factory.mktemp("nvml"))
    if library is None:
        pytest.skip("no C compiler on this machine")
    return library


def forget_library() -> None:
    """Let pynvml load anew: no other test of this process may find the stand-in."""
    pynvml.nvmlLib = None
    pynvml._nvmlGetFunctionPointer_cache.clear()


@pytest.fixture
def gpu(stand_in_library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """Two idle devices, on which nobody has set anything."""
    made = stand_in.fresh(stand_in_library)
    forget_library()
    for name, value in stand_in.environment(made).items():
        monkeypatch.setenv(name, value)
    # A stand-in shows at once what was set.
    for module in ("undoing", "clock_lock", "power_cap"):
        monkeypatch.setattr(f"injectors.gpu.{module}.SETTLE_S", 0.1)
    yield made
    forget_library()
    left = made.claims()
    for path in left:
        os.unlink(path)
    assert left == []


@pytest.fixture
def on_device(gpu: StandIn, sleeper: Victim) -> Victim:
    """A victim that computes on device 0."""
    gpu.put(sleeper)
    return sleeper
