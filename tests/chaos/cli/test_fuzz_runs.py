"""A search with real processes: a seeded bug of a recovery is found and made small."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos.fuzz.log import NAME
from chaos.plan import Plan
from tests.chaos.runs import chaos

pytestmark = pytest.mark.slow

BUGGY = """\
suite: forgotten
seed: 2
defaults:
  target: {kind: recovery, workload: seeded_bugs, world: 2, spares: 0, steps: 14}
  bounds: {detect: 10s, recover: 30s, run: 100s}
scenarios:
  - name: late
    recoveries: 0
    target: {args: [--steps, "14", --bug, forgotten_scheduler]}
    faults: [{fault: collective.delay, where: {rank: 1}, when: {step: 4, phase: backward}, for: 50ms}]
  - name: kill
    target: {args: [--steps, "14", --bug, forgotten_scheduler]}
    faults:
      - {fault: process.kill, where: {rank: random}, when: {step: 4, phase: random}}
      - {fault: process.kill, where: {rank: other}, when: {step: 9, phase: backward}}
"""


@pytest.mark.timeout(600)
def test_a_bug_of_a_recovery_is_found_and_made_small(tmp_path: Path) -> None:
    """The scheduler is not protected, so that a replacement starts the warm-up anew."""
    (tmp_path / "forgotten.yaml").write_text(BUGGY)
    out = tmp_path / "out"
    done = chaos(
        "fuzz",
        tmp_path / "forgotten.yaml",
        "--out",
        out,
        "--rounds",
        4,
        "--shrink-budget",
        "200s",
        timeout_s=500,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    (finding,) = (out / "findings").iterdir()
    assert "state_equals_twin does not hold with process.kill" in done.stdout
    (scenario,) = Plan.from_dict(json.loads((finding / "plan.json").read_text())).scenarios
    assert [fault.name for fault in scenario.faults] == ["process.kill"]
    lines = [json.loads(line) for line in (out / NAME).read_text().splitlines()]
    assert [line["category"] for line in lines if "round" in line].count("FAILED") == 1
