from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from injectors.fault import FaultError
from injectors.gpu import nvml

ROOT = Path(__file__).parents[3]
LOOK = (
    "from injectors.gpu import nvml\n"
    "with nvml.session() as s: print(s.library, s.stand_in, len(s.devices()))\n"
)


def look(**env: str) -> str:
    """What a process of its own finds."""
    base = {key: value for key, value in os.environ.items() if key != nvml.VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", LOOK],
        env={**base, "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_the_dynamic_loader_finds_the_library_as_it_does_for_everyone(gpu: Any) -> None:
    expected = f"{os.path.realpath(gpu.library)} True 2"
    assert look(LD_LIBRARY_PATH=str(gpu.library.parent)) == expected
    assert look(**{nvml.VARIABLE: str(gpu.library)}) == expected


def test_the_path_that_was_loaded_reaches_the_same_library_again(gpu: Any) -> None:
    with nvml.session() as opened:
        library = opened.library
    with nvml.session(library) as opened:
        assert opened.device("1").uuid == gpu.uuids[1]
        assert opened.device(gpu.uuids[0]).index == 0
    with nvml.session() as opened:
        assert str(opened.device("0")) == f"device 0 (STAND-IN device, {gpu.uuids[0]})"


def test_one_process_has_one_library(gpu: Any, tmp_path: Path) -> None:
    with nvml.session():
        pass
    with pytest.raises(FaultError, match="can not also use"):
        with nvml.session(str(tmp_path / "other.so")):
            pass


def test_a_path_that_is_no_library_is_refused(
    gpu: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(nvml.VARIABLE, str(tmp_path / "none.so"))
    assert "check TORCH_CHAOS_NVML" in str(nvml.problem())


def test_without_the_package_it_says_how_to_get_it(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml.problem() == "nvidia-ml-py is not installed\n  mend: pip install 'torch-chaos[gpu]'"


def test_the_probe_looks_for_a_device(gpu: Any) -> None:
    before = gpu.snapshot()
    assert nvml.problem() is None
    for index in (0, 1):
        (gpu.state / str(index) / "uuid").unlink()
    assert nvml.problem() == "NVML knows no device"
    gpu.set("uuid", gpu.uuids[0], 0)
    gpu.set("uuid", gpu.uuids[1], 1)
    assert gpu.snapshot() == before


def test_a_refusal_of_nvml_says_what_to_do(gpu: Any) -> None:
    gpu.set("read_only", 1)
    with nvml.session() as opened:
        with pytest.raises(FaultError) as refused:
            opened.device("0").lock_clock(990)
        (gpu.state / "0" / "power_limit_mw").unlink()
        with pytest.raises(FaultError, match="this device or driver does not offer it"):
            opened.device("0").power()
    assert str(refused.value) == (
        "nvmlDeviceSetGpuLockedClocks: Insufficient Permissions\n"
        "  mend: run as root: the driver lets nobody else change a device"
    )
