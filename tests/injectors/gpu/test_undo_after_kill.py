"""The tool is killed with SIGKILL while a setting of a device is changed; its reaper puts it back.

Real: the journal, the reaper (no site-packages, none of our variables), nvidia-ml-py. STAND-IN: NVML.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from chaos.undo import journal as journals
from chaos.undo.rollback import roll_back
from injectors.fault import Victim

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.slow
BOUND_S = 10.0

TOOL = """
import json, os, signal, sys, time
from pathlib import Path
from chaos.undo.journal import JournalFile
from chaos.undo.reaper import Reaper
from chaos.undo.records import Opening
from injectors import signals
from injectors.catalogue import get
from injectors.fault import Victim

name, victim, folder, at = sys.argv[1], Victim(**json.loads(sys.argv[2])), Path(sys.argv[3]), sys.argv[4]
journal = JournalFile(folder / "undo.jsonl")
own = os.getpid()
journal.open(Opening("gpu-" + folder.name, own, signals.start_ticks(own), "", (), time.time()))
reaper = Reaper.start(journal.path)
fault = get(name).from_params({})
record = fault.undo_record(victim)
if at == "looked":
    os.kill(own, signal.SIGKILL)
journal.undo("it/f1", record.as_dict())
if at == "journalled":
    os.kill(own, signal.SIGKILL)
fired = fault.inject(victim, None)
assert fired.proven, fired.what
if at == "injected":
    os.kill(own, signal.SIGKILL)
assert fault.verify(victim, fired).proven
os.kill(own, signal.SIGKILL)
"""


def killed(gpu: Any, name: str, victim: Victim, folder: Path, at: str) -> journals.Journal:
    """Run the tool to its death; returns the journal when the reaper has closed it."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", TOOL, name, json.dumps(victim.as_dict()), str(folder), at]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    limit = time.monotonic() + BOUND_S
    while not (found := journals.read(folder / "undo.jsonl")).closed:
        assert time.monotonic() < limit, "the reaper has not finished"
        time.sleep(0.02)
    return found


@pytest.mark.parametrize("name", ["gpu.clock_lock", "gpu.power_cap", "gpu.contend", "gpu.mem_hog"])
@pytest.mark.parametrize("at", ["looked", "journalled", "injected", "verified"])
def test_the_device_is_as_before(gpu: Any, on_device: Victim, tmp_path: Path, name: str, at: str) -> None:
    before = gpu.snapshot()
    journal = killed(gpu, name, on_device, tmp_path, at)
    assert (journal.clean, journal.closed_by) == (True, "reaper")
    assert journal.pending == []
    assert gpu.snapshot() == before
    text = (tmp_path / "undo.jsonl").read_text()
    for _ in range(2):
        assert roll_back(tmp_path / "undo.jsonl").state == "clean"
    assert (tmp_path / "undo.jsonl").read_text() == text
    assert gpu.snapshot() == before


def test_the_reaper_leaves_what_somebody_else_has_set(gpu: Any, on_device: Victim, tmp_path: Path) -> None:
    # Set by somebody else in the moment in which the tool dies: before its reaper looks.
    command = f"echo 350000 > {gpu.state}/0/power_limit_mw"
    stuck = TOOL.replace("assert fault.verify(victim, fired).proven", f"os.system({command!r})")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    arguments = ["gpu.power_cap", json.dumps(on_device.as_dict()), str(tmp_path), "verified"]
    subprocess.run([sys.executable, "-c", stuck, *arguments], env=env, timeout=60, check=False)
    limit = time.monotonic() + BOUND_S
    while not (found := journals.read(tmp_path / "undo.jsonl")).closed:
        assert time.monotonic() < limit
        time.sleep(0.02)
    assert found.clean
    assert gpu.get("power_limit_mw") == 350000
    assert gpu.claims() == []
