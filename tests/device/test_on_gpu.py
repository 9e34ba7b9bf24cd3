"""What has to be seen on a real accelerator once. One GPU is enough.

    pytest -m gpu tests/device --junit-xml reports/device/NAME.xml

The stand-ins that run everywhere are beside the tests of the code that they stand in for.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "scripts" / "train_cuda.py"
pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(300)]


def launch(folder: Path, name: str, world: int, *args: str) -> list[dict[str, Any]]:
    """Run the training script. Returns its events."""
    events = folder / f"{name}.jsonl"
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "RECOVERY_EVENTS": str(events),
        "RECOVERY_DIGEST": "1",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }
    command = [sys.executable, "-m", "recovery.launch", "--nproc-per-node", str(world), "--spares", "1"]
    done = subprocess.run(
        [*command, str(SCRIPT), *args], env=env, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]


def last_digests(events: list[dict[str, Any]], step: int) -> set[str]:
    return {e["digest"] for e in events if e["event"] == "step.commit" and e["step"] == step}


def test_state_on_the_device_rolls_back_bit_by_bit() -> None:
    from recovery.state import StateTree

    model = nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        model(torch.randn(8, 32, device="cuda")).square().mean().backward()
        optimizer.step()

    tree = StateTree()
    tree.add("model", model)
    tree.add("optimizer", optimizer)
    step()
    tree.capture()
    before = tree.digest().total
    held = copy.deepcopy(model.state_dict())
    step()
    assert tree.digest().total != before
    tree.rollback()
    assert tree.digest().total == before
    assert all(torch.equal(value, held[key]) for key, value in model.state_dict().items())


def test_a_job_over_nccl_runs_and_repeats(tmp_path: Path) -> None:
    runs = [launch(tmp_path, name, 1, "--steps", "20", "--backend", "nccl") for name in ("one", "two")]
    assert last_digests(runs[0], 19) == last_digests(runs[1], 19)
    assert len(last_digests(runs[0], 19)) == 1


def test_a_killed_rank_is_replaced_by_a_spare_with_equal_state(tmp_path: Path) -> None:
    """Two ranks share the device, over gloo: NCCL refuses two ranks on one GPU."""
    twin = launch(tmp_path, "twin", 2, "--steps", "20", "--backend", "gloo")
    struck = launch(tmp_path, "struck", 2, "--steps", "20", "--backend", "gloo", "--die-at", "8")
    done = [event for event in struck if event["event"] == "recovery.done"]
    assert [cause["kind"] for event in done for cause in event["causes"]] == ["crash"]
    assert any(event["event"] == "worker.promoted" for event in struck)
    assert last_digests(struck, 19) == last_digests(twin, 19)


def test_a_kernel_that_does_not_return_occupies_the_stream_until_it_is_released() -> None:
    from injectors.agent import cuda

    torch.cuda.init()
    torch.cuda.synchronize()
    release = cuda.launch(torch, limit_s=20.0)
    stream = torch.cuda.current_stream()
    time.sleep(0.2)
    assert not stream.query()
    # What is issued behind it does not arrive, as a collective would not.
    behind = torch.cuda.Event()
    behind.record()
    assert not behind.query()
    threading.Timer(0.1, release).start()
    start = time.monotonic()
    stream.synchronize()
    assert time.monotonic() - start < 5.0
    assert behind.query()


def test_abort_ends_a_group_whose_generation_is_over() -> None:
    import torch.distributed as dist

    from recovery.shell.backends import Nccl

    torch.cuda.set_device(0)
    backend = Nccl()
    group = backend.form(dist.HashStore(), 0, 1, 1)
    tensor = torch.ones(4, device=backend.device())
    group.allreduce([tensor], dist.AllreduceOptions()).wait()
    assert tensor.tolist() == [1.0] * 4
    start = time.monotonic()
    backend.abort(group)
    assert time.monotonic() - start < 5.0
