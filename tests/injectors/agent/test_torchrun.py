"""An unchanged script under torchrun: nothing is forked, the agent comes by the environment alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
JOB = Path(__file__).parent.parent / "jobs" / "ddp.py"


def test_digests_agree_and_the_kill_is_exact(rig: Any, planned: Callable[..., dict[str, Any]]) -> None:
    from injectors import boot

    rig.configure([planned("process.kill", 1, step=3, phase="backward")], digest=True)
    env = boot.environment(rig.folder / "agent.json", {**os.environ, "OMP_NUM_THREADS": "1"})
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(JOB), "6"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100, check=False)
    outcome = rig.finish()
    assert done.returncode == 1
    assert "exitcode: -9" in done.stderr
    reached = outcome.reached[0]
    assert (reached.rank, reached.step, reached.phase) == (1, 3, "backward")
    left, right = outcome.commits(0), outcome.commits(1)
    assert [event["step"] for event in left] == [event["step"] for event in right] == [0, 1, 2]
    assert [event["digest"] for event in left] == [event["digest"] for event in right]
    # Only ranks take part: torchrun's own process has no rank.
    assert {event["rank"] for event in outcome.events} == {0, 1}
    started = [event for event in outcome.events if event["event"] == "worker.start"]
    assert sorted(event["rank"] for event in started) == [0, 1]
    assert all(event["argv"][0] == str(JOB) for event in started)
