"""gpu.contend and gpu.mem_hog: everything but the computing, which a STAND-IN for torch does.

The process, its session, its token, its life and its end are real; so are nvidia-ml-py's calls.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from injectors import signals
from injectors.fault import FaultError, Victim
from injectors.gpu import co_tenant, tenant
from injectors.gpu.contend import GpuContend
from injectors.gpu.mem_hog import GpuMemHog
from injectors.gpu.setting import token_of
from injectors.gpu.sharing import session_of

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("fault", [GpuContend(share=0.5), GpuMemHog(share=0.5)])
def test_a_process_is_put_beside_the_victim_and_ended_twice(
    gpu: Any, on_device: Victim, fault: GpuContend | GpuMemHog
) -> None:
    before = gpu.snapshot()
    record = fault.undo_record(on_device)
    fired = fault.inject(on_device, None)
    assert fired.proven, fired.what
    pid = fired.data["pid"]
    assert session_of(pid) == pid
    seen = fault.verify(on_device, fired)
    assert seen.proven, seen.what
    assert seen.what.startswith("STAND-IN NVML: ")
    assert seen.what.endswith("(STAND-IN CUDA device, torch STAND-IN)")
    assert not fault.verify_undone(record).proven
    for _ in range(2):
        assert fault.undo(record).proven
        assert fault.verify_undone(record).proven
    assert signals.state(pid) is None
    assert gpu.snapshot() == before


def test_the_hog_holds_its_share_of_what_is_free(gpu: Any, on_device: Victim) -> None:
    fault = GpuMemHog(share=0.25)
    record = fault.undo_record(on_device)
    seen = fault.verify(on_device, fault.inject(on_device, None))
    free = (80 << 30) - (1 << 30)
    assert seen.data["said"]["held_bytes"] == free // 4
    assert seen.data["seen"]["free_bytes"] == free - free // 4
    assert fault.undo(record).proven
    assert fault.verify_undone(record).data["free_bytes"] == free


def test_a_device_that_nvml_does_not_show_it_on_is_not_proven(gpu: Any, on_device: Victim) -> None:
    fault = GpuContend()
    record = fault.undo_record(on_device)
    fired = fault.inject(on_device, None)
    begun = tenant.started(fired.data["token"])
    assert begun is not None
    # The stand-in for CUDA lists the process when it has its context; then it is taken off the list.
    ready = begun.hear(30.0)
    assert ready is not None
    (gpu.state / "0" / "contexts").unlink()
    begun.said = b'{"ready": true, "device_name": "STAND-IN", "torch": "STAND-IN"}\n'
    assert not fault.verify(on_device, fired).proven
    assert fault.undo(record).proven


def test_a_torch_without_cuda_is_not_ready(
    gpu: Any, on_device: Victim, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')\n")
    monkeypatch.setenv(tenant.STAND_IN, str(tmp_path))
    fault = GpuContend()
    record = fault.undo_record(on_device)
    seen = fault.verify(on_device, fault.inject(on_device, None))
    assert (seen.proven, "no torch here" in seen.what) == (False, True)
    assert fault.undo(record).proven


def test_a_device_that_does_not_exist_or_has_a_stranger_is_refused(gpu: Any, sleeper: Victim) -> None:
    gpu.set("processes", "1 1")
    with pytest.raises(FaultError, match="there is no device '9'"):
        GpuContend(device="9").undo_record(sleeper)
    with pytest.raises(FaultError, match="not of this run"):
        GpuMemHog(device="0").undo_record(sleeper)
    assert not GpuContend(device="0").inject(sleeper, None).proven
    assert tenant.find(token_of(sleeper)) == []


def test_undo_touches_nothing_that_has_another_token(gpu: Any, on_device: Victim) -> None:
    fault = GpuContend()
    record = fault.undo_record(on_device)
    fired = fault.inject(on_device, None)
    assert tenant.end("another") == (True, "it is gone")
    assert signals.state(fired.data["pid"]) is not None
    assert fault.undo(record).proven


def test_it_is_found_by_its_token_by_a_process_that_did_not_start_it(gpu: Any, on_device: Victim) -> None:
    fault = GpuContend()
    record = fault.undo_record(on_device)
    pid = fault.inject(on_device, None).data["pid"]
    code = (
        "import json, sys; from injectors import undo; "
        "print(json.dumps(undo.carry_out(json.loads(sys.argv[1]))['done']))"
    )
    import json

    done = subprocess.run(
        [sys.executable, "-S", "-c", code, json.dumps(record.as_dict())],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "true"
    assert signals.state(pid) in ("Z", None)
    assert fault.undo(record).proven


TOOL = """
import sys, time
from injectors.gpu import tenant
begun = tenant.start("{token}", "{uuid}", "", ["burn", "--share", "0.5"], 60)
begun.hear({wait})
print(begun.process.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("wait", [0, 30])
def test_it_ends_with_the_tool_that_is_killed(gpu: Any, wait: int) -> None:
    """wait 0: while it still imports torch."""
    token = f"test-{gpu.uuids[0]}"
    tool = subprocess.Popen(
        [sys.executable, "-c", TOOL.format(token=token, uuid=gpu.uuids[0], wait=wait)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert tool.stdout is not None
    pid = int(tool.stdout.readline())
    ticks = signals.start_ticks(pid)
    assert ticks is not None
    tool.send_signal(signal.SIGKILL)
    tool.communicate()
    gone = signals.wait_gone(pid, ticks, 10.0)
    tenant.end(token)
    assert gone


def test_it_ends_when_its_time_is_up(gpu: Any) -> None:
    begun = tenant.start("test-limit", gpu.uuids[0], "", ["hold", "--share", "0.1"], 0.5)
    try:
        assert begun.process.wait(30) == 0
    finally:
        tenant.end("test-limit")


class CountingTorch:
    """STAND-IN: multiplies nothing, and takes 10 ms for it."""

    float16 = "float16"

    def __init__(self) -> None:
        self.multiplied = 0
        self.cuda = self

    def ones(self, shape: Any, device: str, dtype: str) -> str:
        return "matrix"

    def mm(self, left: str, right: str) -> None:
        self.multiplied += 1
        time.sleep(0.01)

    def synchronize(self) -> None:
        pass


@pytest.mark.parametrize("duty", [0.2, 0.5, 1.0])
def test_the_duty_is_kept(duty: float) -> None:
    torch = CountingTorch()
    burner = co_tenant.Burner(torch, duty)
    for _ in range(5):
        burner.turn()
    seen = burner.seen()
    # A loaded machine makes pauses longer, never shorter.
    assert 0.0 < seen["duty"] <= duty + 0.05
    assert (seen["bursts"], torch.multiplied >= 5) == (5, True)
