"""torch-chaos killed with SIGKILL at 25 moments spread over a run: nothing of the run is left 5 s later.

Of the moments in a run of the real runtime a sample is taken, its seed printed; TORCH_CHAOS_EVERY_BOUNDARY=1
takes all.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaos.clusters import processes
from chaos.undo import shm
from tests.chaos.runs import COMMAND, ROOT, chaos, environment, suite

pytestmark = [pytest.mark.slow, pytest.mark.alone]

MOMENTS = 25
SAMPLED = 6
BOUND_S = 5.0

STANDIN = """\
  - name: freeze
    faults: [{fault: process.stop, where: {rank: 1}, when: {step: 4, phase: data}, for: 10s}]
  - name: kills
    faults:
      - {fault: process.kill, where: {rank: 1}, when: {step: 3, phase: data}, repeat: {count: 5, every: 3}}
"""
RECOVERY = """\
suite: recovery
seed: 1
defaults:
  target: {kind: recovery, workload: tiny_gpt, world: 4, steps: 20, spares: 1}
  bounds: {recover: 2s, run: 60s}
scenarios:
  - name: freeze
    faults: [{fault: process.stop, where: {rank: 1}, when: {step: 6, phase: backward}}]
  - name: hang
    faults: [{fault: collective.hang, where: {rank: 2}, when: {step: 6, phase: backward}}]
  - name: kill
    faults: [{fault: process.kill, where: {rank: 0}, when: {step: 6, phase: backward}}]
"""
COMMAND_SUITE = """\
suite: command
seed: 1
defaults:
  target: {{kind: command, argv: ["{python}", "{script}", "{seconds}", "{done}"], world: 1}}
  bounds: {{run: 20s}}
scenarios:
  - name: stubborn
    faults: []
"""
# Descendants that a kill of the parent does not reach: another session, SIGTERM ignored, frozen, no marker.
STUBBORN = """\
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["sleep", "60"], start_new_session=True)
subprocess.Popen(["sleep", sys.argv[1]], start_new_session=True, env={})
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.kill(os.getpid(), signal.SIGSTOP)
open(sys.argv[2], "w").close()
time.sleep(60)
"""


@dataclass
class Killed:
    """A run whose tool was killed; `opening` is the first line of its journal, {} if it had none yet."""

    folder: Path
    opening: dict[str, object]
    since: float
    before: set[str]


def kill_after(path: Path, folder: Path, after_s: float) -> Killed:
    """Start a run and SIGKILL the tool `after_s` seconds later."""
    return kill_when(path, folder, lambda: time.sleep(after_s))


def kill_when(path: Path, folder: Path, wait: Callable[[], None]) -> Killed:
    """Start a run and SIGKILL the tool when `wait` returns."""
    before, since = shm.entries(), time.time()
    process = subprocess.Popen(
        [*COMMAND, "run", str(path), "--report-dir", str(folder), "--format", "plain"],
        env=environment(), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait()
    process.kill()
    process.wait()
    journal = folder / "undo.jsonl"
    lines = journal.read_text().splitlines() if journal.exists() else []
    return Killed(folder, json.loads(lines[0]) if lines else {}, since, before)


def assert_nothing_is_left(killed: Killed) -> None:
    """Within 5 s of the tool's death: no process, no shared memory, no folder, and `rollback` says clean."""
    limit = time.monotonic() + BOUND_S
    while (left := list(what_is_left(killed))) and time.monotonic() < limit:
        time.sleep(0.02)
    assert not left
    if killed.folder.exists():
        done = chaos("rollback", killed.folder)
        assert done.returncode == 0, done.stdout
        assert "clean" in done.stdout or "finished now" in done.stdout
        assert "LEFT" not in done.stdout


def what_is_left(killed: Killed) -> Iterator[str]:
    run, temp = str(killed.opening.get("run")), killed.opening.get("temp")
    for process in processes.marked(run):
        yield f"process {process.pid}: {' '.join(processes.argv(process.pid))}"
    for pid in processes.pids():
        words = processes.argv(pid)
        if words[:1] == [sys.executable] and str(killed.folder / "undo.jsonl") in words:
            yield f"the reaper {pid}"
    for name in shm.left(killed.before, killed.since, run):
        if name.startswith(shm.OURS):
            yield f"/dev/shm/{name}"
    if temp and Path(str(temp)).exists():
        yield f"folder {temp}"


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_killed_at_a_moment_of_a_run(tmp_path: Path, moment: int) -> None:
    path = suite(tmp_path, STANDIN, options={"step_s": 0.02})
    assert_nothing_is_left(kill_after(path, tmp_path / "r", 0.1 + moment * 0.12))


@pytest.mark.timeout(600)
def test_killed_at_moments_of_a_run_of_the_real_runtime(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(RECOVERY)
    moments = list(range(MOMENTS))
    if os.environ.get("TORCH_CHAOS_EVERY_BOUNDARY") != "1":
        seed = int(os.environ.get("TORCH_CHAOS_SEED") or secrets.randbelow(2**31))
        with capsys.disabled():
            print(f"\nmoments: TORCH_CHAOS_SEED={seed}", flush=True)
        moments = random.Random(seed).sample(moments, SAMPLED)
    for moment in moments:
        assert_nothing_is_left(kill_after(path, tmp_path / f"r{moment}", 0.5 + moment * 0.6))


def test_killed_with_a_command_that_does_everything_to_survive(tmp_path: Path) -> None:
    script = tmp_path / "stubborn.py"
    script.write_text(STUBBORN)
    path = tmp_path / "suite.yaml"
    # By its argument the one without a marker is told from what sleeps elsewhere on the machine.
    seconds, done = f"61.{os.getpid()}", tmp_path / "done"
    path.write_text(COMMAND_SUITE.format(python=sys.executable, script=script, seconds=seconds, done=done))
    killed = kill_when(path, tmp_path / "r", lambda: wait_for(done))
    assert_nothing_is_left(killed)
    assert ["sleep", seconds] not in [processes.argv(pid) for pid in processes.pids()]


def wait_for(path: Path) -> None:
    """Until a process has made a file: it then has its family around it."""
    limit = time.monotonic() + 100.0
    while not path.exists():
        assert time.monotonic() < limit, f"{path} was not made"
        time.sleep(0.02)  # what another process writes has no event to wait for
