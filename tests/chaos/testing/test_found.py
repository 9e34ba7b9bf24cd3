"""A recovery property of fifteen lines finds a bug that people make, and leaves a plan that fails again."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.chaos.testing.projects import Project, documented

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_seeded_bug_is_found_and_its_minimal_plan_fails_again(project: Project) -> None:
    # The scheduler is forgotten, as in `suites/workloads/seeded_bugs.py --bug forgotten_scheduler`.
    mine = documented("test_property.py")
    assert len(mine.splitlines()) <= 15
    project.write("test_mine.py", mine)
    found = project.pytest("--torch-chaos-profile=ci", "--torch-chaos-report=reports")
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(
        [
            "*RecoveryFailed: 2 of 2 runs failed (counts from 2 of 3 on): VIOLATED *",
            "*run it again:  torch-chaos replay */plan.json",
            "*keep it:       @example(Plan.load('*/plan.json'))",
            "*plan=FaultPlan(*",
            "*1 FAILED*",
        ]
    )
    (plan,) = (project.path / "reports" / "found").glob("*/plan.json")
    line = [sys.executable, "-m", "chaos", "replay", str(plan), "--format", "plain"]
    again = subprocess.run(line, cwd=project.path, capture_output=True, text=True, timeout=150, check=False)
    assert again.returncode == 1, again.stderr
    assert "VIOLATED" in again.stdout
    assert again.stdout.count("process.kill rank 0 step 1 phase forward") >= 1, (
        "one fault, the plainest there is"
    )
