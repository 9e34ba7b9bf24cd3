"""What stays of a shrinking: the plan, and a test that runs it. Pure."""

from __future__ import annotations

import re
from dataclasses import replace

from chaos.plan import Plan, PlannedScenario
from chaos.shrinking.failure import Failure

TEST = '''\
"""{about}

Written by `torch-chaos shrink`; {plan} beside this file is what it runs.
"""

import subprocess
import sys
from pathlib import Path

PLAN = Path(__file__).with_name("{plan}")


def test_{name}(tmp_path: Path) -> None:
    """{faults}"""
    command = [sys.executable, "-m", "chaos", "replay", str(PLAN), "--format", "plain"]
    done = subprocess.run(
        [*command, "--report-dir", str(tmp_path / "report")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
'''


def plan_of(plan: Plan, scenario: PlannedScenario) -> Plan:
    """The plan with one scenario."""
    return replace(plan, scenarios=[scenario])


def file_name(text: str) -> str:
    """Text as a part of a file's and a function's name."""
    return re.sub(r"\W+", "_", text).strip("_").lower() or "scenario"


def pytest_file(plan: str, suite: str, scenario: PlannedScenario, failure: Failure, faults: list[str]) -> str:
    """The text of a test that replays the plan and passes once the scenario ends as it states.

    Args:
        plan: the plan's file name.
        faults: each fault in words.
    """
    return TEST.format(
        about=f"{suite}, {scenario.name}: {failure.invariant} did not hold.",
        plan=plan,
        name=file_name(scenario.name),
        faults="; ".join(faults).replace("\\", "\\\\").replace('"', "'"),
    )
