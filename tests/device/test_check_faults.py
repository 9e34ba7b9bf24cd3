"""The device script itself, where no device is: it refuses, and it runs against the stand-ins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.injectors.gpu import stand_in
from tests.injectors.gpu.stand_in import StandIn

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def check(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    base = {key: value for key, value in os.environ.items() if not key.startswith("TORCH_CHAOS_")}
    return subprocess.run(
        [sys.executable, "-m", "tests.device.check_faults", *arguments],
        cwd=ROOT,
        env={**base, "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )


@pytest.fixture
def device(tmp_path: Path) -> StandIn:
    library = stand_in.compile_library(tmp_path)
    if library is None:
        pytest.skip("no C compiler on this machine")
    return stand_in.fresh(library)


def test_it_refuses_where_there_is_no_device() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    done = check()
    assert (done.returncode, done.stderr.startswith("refused: ")) == (4, True)


def test_a_record_of_a_device_never_goes_through_a_stand_in(device: StandIn) -> None:
    done = check(**stand_in.environment(device))
    assert (done.returncode, "must not go through a stand-in" in done.stderr) == (4, True)
    done = check("--stand-in", **stand_in.environment(device))
    assert (done.returncode, "has no place in reports/device" in done.stderr) == (4, True)


def test_a_device_that_somebody_uses_is_refused(device: StandIn, tmp_path: Path) -> None:
    device.set("processes", f"{os.getpid()} 1")
    done = check("--stand-in", "--report-dir", str(tmp_path / "out"), **stand_in.environment(device))
    assert (done.returncode, f"is in use by ({os.getpid()},)" in done.stderr) == (4, True)
    assert not (tmp_path / "out").exists()


def test_clocks_are_not_touched_unless_asked(device: StandIn, tmp_path: Path) -> None:
    arguments = ("--stand-in", "--report-dir", str(tmp_path), "--only", "gpu.clock_lock")
    done = check(*arguments, **stand_in.environment(device))
    assert (done.returncode, "--only: one of gpu.contend" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "faults", [("gpu.mem_hog", "gpu.stuck_kernel"), ("gpu.device_assert", "gpu.clock_lock")]
)
def test_it_runs_against_the_stand_ins_and_leaves_nothing(
    device: StandIn, tmp_path: Path, faults: tuple[str, ...]
) -> None:
    before = device.snapshot()
    only = [word for fault in faults for word in ("--only", fault)]
    out = tmp_path / "out"
    done = check(
        "--stand-in", "--i-own-this-machine", "--report-dir", str(out), *only, **stand_in.environment(device)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(next(out.glob("stand-in-*.json")).read_text())
    assert {entry["fault"]: entry["problems"] for entry in record["checks"]} == {name: [] for name in faults}
    assert (record["stand_in"], record["left"]) == (True, [])
    assert "(STAND-IN)" in next(out.glob("stand-in-*.md")).read_text()
    assert device.snapshot() == before


@pytest.mark.gpu
@pytest.mark.timeout(400)
def test_the_faults_are_proven_on_a_real_device(tmp_path: Path) -> None:
    done = check("--report-dir", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
