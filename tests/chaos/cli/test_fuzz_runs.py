"""Searches with real processes: a failure is found and shrunk, an end is survived, a seeded bug is found."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.fuzz.log import NAME
from chaos.plan import Plan
from tests.chaos.runs import COMMAND, ROOT, chaos, environment, suite

pytestmark = pytest.mark.slow

# The stand-in announces a step's begin and no other phase of it.
KILLS = """\
  - name: kills
    {more}faults:
      - {{fault: process.kill, where: {{rank: random}}, when: {{step: 4, phase: data}}}}
      - {{fault: process.kill, where: {{rank: other}}, when: {{step: 9}}}}
"""
HOLDS, BREAKS = KILLS.format(more=""), KILLS.format(more="bounds: {recover: 0.1ms}\n    ")
BOUND = "recovered_within_bounds"


def plans(folder: Path) -> list[str]:
    """The plan's hash of each round."""
    found = [json.loads(line) for line in (folder / NAME).read_text().splitlines()]
    return [line["plan"] for line in found if "round" in line]


def test_a_failure_is_found_shrunk_and_replayed(tmp_path: Path) -> None:
    path, out = suite(tmp_path, BREAKS), tmp_path / "out"
    done = chaos("fuzz", path, "--out", out, "--rounds", 6, "--stop-at-first", timeout_s=150)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED        target: process.kill" in done.stdout
    assert "2 of 2 runs failed: recovered_within_bounds" in done.stdout
    (finding,) = (out / "findings").iterdir()
    assert (
        f"FOUND {finding.name}: {BOUND} does not hold with process.kill (nothing smaller fails" in done.stdout
    )
    (scenario,) = Plan.from_dict(json.loads((finding / "plan.json").read_text())).scenarios
    assert [fault.name for fault in scenario.faults] == ["process.kill"]
    assert [path.name for path in finding.glob("test_*.py")] == ["test_round_1.py"]
    assert (out / "rounds" / "0001" / "run-1" / "report.html").is_file()
    assert not (out / "work").exists()
    again = chaos("replay", finding / "plan.json", "--report-dir", tmp_path / "again", "--format", "plain")
    assert again.returncode == 1, again.stdout + again.stderr
    # Taken up again: what fails alike is told as that, and is not shrunk again.
    more = chaos("fuzz", path, "--out", out, "--rounds", 1, timeout_s=100)
    assert more.returncode == 1, more.stdout + more.stderr
    assert "KNOWN         target: process.kill" in more.stdout
    assert f"as finding {finding.name}" in more.stdout


def ended(path: Path, out: Path, number: signal.Signals, when: Callable[[str], bool]) -> tuple[int, str]:
    """A search that is sent a signal once a line says so; its exit code and what it said."""
    process = subprocess.Popen(
        [*COMMAND, "fuzz", str(path), "--out", str(out), "--rounds", "50"],
        env=environment(), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    said = ""
    with process:
        while not when(said):
            line = process.stdout.readline()
            assert line, said
            said += line
        process.send_signal(number)
        said += process.stdout.read()
    return process.returncode, said


def test_killed_and_interrupted_it_draws_what_it_would_have_drawn(tmp_path: Path) -> None:
    path = suite(tmp_path, HOLDS)
    whole = chaos("fuzz", path, "--out", tmp_path / "whole", "--rounds", 5, timeout_s=100)
    assert whole.returncode == 0, whole.stdout + whole.stderr
    assert "5 rounds: 5 PASS" in whole.stdout
    out = tmp_path / "out"
    code, said = ended(path, out, signal.SIGKILL, lambda said: "round 2 " in said)
    assert code == -signal.SIGKILL, said
    code, said = ended(path, out, signal.SIGINT, lambda said: "round 4 " in said)
    assert code == 130, said
    assert "going on after round" in said
    assert "and the same command goes on" in said
    had = len(plans(out))
    assert had >= 4
    rest = chaos("fuzz", path, "--out", out, "--rounds", max(1, 5 - had), timeout_s=100)
    assert rest.returncode == 0, rest.stdout + rest.stderr
    assert plans(out)[:5] == plans(tmp_path / "whole")
    assert chaos("rollback", out).returncode == 0


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
        "40s",
        timeout_s=500,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    (finding,) = (out / "findings").iterdir()
    assert "state_equals_twin does not hold with process.kill" in done.stdout
    (scenario,) = Plan.from_dict(json.loads((finding / "plan.json").read_text())).scenarios
    assert [fault.name for fault in scenario.faults] == ["process.kill"]
    lines = [json.loads(line) for line in (out / NAME).read_text().splitlines()]
    assert [line["category"] for line in lines if "round" in line].count("FAILED") == 1
