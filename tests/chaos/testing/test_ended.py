"""Whatever ends the test run early, what it had broken is taken back, and what there is is told."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaos.clusters import processes
from tests.chaos.testing.projects import LONG_S, STANDIN, Project

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# A job that nothing but a deadline ends, once a rank was frozen and replaced.
STUCK = f"""\
suite: stuck
seed: 1
scenarios:
  - name: stuck
    target:
      {{kind: custom, file: {STANDIN}, world: 2, steps: 60, restart: in_place, options: {{flags: [--stuck]}}}}
    faults: [{{fault: process.stop, where: {{rank: 1}}, when: {{step: 3, phase: data}}}}]
    bounds: {{run: 150s}}
"""


def wait_until_stuck(reports: Path, process: subprocess.Popen[bytes]) -> None:
    """Until the rank has been replaced."""
    limit = time.monotonic() + LONG_S
    while time.monotonic() < limit:
        assert process.poll() is None, "pytest has ended too early"
        if any('"recovery.done"' in path.read_text() for path in reports.glob("stuck/stuck/events.jsonl")):
            return
        time.sleep(0.02)
    raise AssertionError("no rank was replaced")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_rolls_the_run_back(project: Project, number: signal.Signals) -> None:
    project.write("mine.yaml", STUCK)
    reports = project.path / "reports"
    line = [sys.executable, "-m", "pytest", "mine.yaml", f"--torch-chaos-report={reports}"]
    line.append(f"--basetemp={project.path / 'base'}")
    process = subprocess.Popen(line, cwd=project.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        wait_until_stuck(reports, process)
    finally:
        process.send_signal(number)
        out, _ = process.communicate(timeout=LONG_S)
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 130
        assert f"{number.name} during a run, which is rolled back" in out.decode()
    opening, closed = closed_journal(project.path)
    assert closed["clean"]
    assert closed["by"] == ("reaper" if number == signal.SIGKILL else "engine")
    assert processes.marked(opening["run"]) == []
    assert not Path(opening["temp"]).exists()


def closed_journal(folder: Path) -> tuple[dict[str, object], dict[str, object]]:
    """The first and the last line of the session's journal, once it is closed."""
    (path,) = folder.glob("base/torch-chaos/undo.jsonl")
    limit = time.monotonic() + 30.0
    while time.monotonic() < limit:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        if lines[-1]["op"] == "closed":
            return lines[0], lines[-1]
        time.sleep(0.02)
    raise AssertionError("nobody has closed the journal")


def test_a_deadline_of_the_test_runner_shows_where_the_ranks_are(project: Project) -> None:
    project.write("mine.yaml", STUCK)
    done = project.pytest("mine.yaml", "--timeout=20", "--timeout-method=signal")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [
            "*Timeout (>20.0s) from pytest-timeout*",
            "the run came to no verdict",
            "timeline of stuck:",
            "*verified f1 process.stop rank 1*",
            "every rank's Python stack when the deadline passed:",
            "*rank 0, pid *",
            "*job.py*, line * in worker",
            "*rank 1, pid *",
            "*job.py*, line * in worker",
            "report: *",
        ]
    )
