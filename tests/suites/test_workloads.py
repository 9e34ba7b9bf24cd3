"""The workloads learn, are recorded, and are what a user would write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
WORKLOADS = ROOT / "suites" / "workloads"


@pytest.mark.parametrize("name", ["tiny_gpt", "digits_cnn"])
def test_it_is_short(name: str) -> None:
    assert len((WORKLOADS / f"{name}.py").read_text(encoding="utf-8").splitlines()) < 120


def launch(name: str, events: Path, *args: str) -> list[dict[str, Any]]:
    """Run a workload on four ranks without a fault; its committed steps, in order of time."""
    command = [sys.executable, "-m", "recovery.launch", "--nproc-per-node", "4", "--seed", "3"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "RECOVERY_EVENTS": str(events)}
    done = subprocess.run(
        [*command, str(WORKLOADS / f"{name}.py"), *args],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line["event"] == "step.commit"]


def losses(commits: list[dict[str, Any]], steps: range) -> float:
    return mean(commit["loss"] for commit in commits if commit["step"] in steps)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "falls_to"),
    # A guess costs ln 256 = 5.5 and ln 10 = 2.3. Knowing how often each byte occurs is worth 3.3.
    [("tiny_gpt", 3.5), ("digits_cnn", 0.8)],
)
def test_the_loss_falls(name: str, falls_to: float, tmp_path: Path, require: Callable[[str], None]) -> None:
    if name == "digits_cnn":
        require("digits")
    commits = launch(name, tmp_path / "events.jsonl", "--steps", "60")
    assert {(c["rank"], c["step"]) for c in commits} == {(r, s) for r in range(4) for s in range(60)}
    assert losses(commits, range(50, 60)) < falls_to < losses(commits, range(5)) - 1.0

    samples = [sample for commit in commits for sample in commit["notes"]["samples"]]
    assert len(samples) == len(set(samples))
    if name == "tiny_gpt":
        first = next(c for c in commits if c["step"] == 0)
        corpus = first["notes"]["corpus"]
        assert len(corpus["files"]) == 40
        assert len(corpus["sha256"]) == 64


@pytest.mark.slow
def test_digits_without_scikit_learn_says_how_to_mend_it(tmp_path: Path) -> None:
    """The file is found without an import, so its absence must be told before anything fails."""
    script = "import importlib.util, runpy, sys; importlib.util.find_spec = lambda name: None; "
    script += f"runpy.run_path({str(WORKLOADS / 'digits_cnn.py')!r})['read_digits']()"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert done.stderr.strip().endswith("mend: pip install 'torch-chaos[digits]'")


def torchrun(folder: Path, steps: int) -> str:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = [str(ROOT / "suites" / "scripts" / "train_ddp.py"), "--checkpoints", str(folder)]
    done = subprocess.run(
        [*command, *script, "--steps", str(steps)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_the_torchrun_script_resumes_bit_by_bit(tmp_path: Path, require: Callable[[str], None]) -> None:
    require("torchrun")
    import torch

    whole = torchrun(tmp_path / "whole", 12)
    halves = torchrun(tmp_path / "halves", 7) + "--\n" + torchrun(tmp_path / "halves", 12)
    assert "step 5 " in halves.split("--")[1]  # the newest checkpoint is that of step 4
    assert whole.splitlines()[5:] == halves.split("--\n")[1].splitlines()
    ends = [torch.load(tmp_path / name / "step-000009.pt", weights_only=True) for name in ("whole", "halves")]
    for key, value in ends[0]["model"].items():
        assert torch.equal(value, ends[1]["model"][key])
