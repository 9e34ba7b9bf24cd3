"""Whole runs against a job that costs nothing: verdicts, exit codes, and what is left on disk."""

from __future__ import annotations

import fcntl
import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from chaos.clusters import processes
from chaos.undo import shm
from tests.chaos.runs import COMMAND, KILL, QUIET, ROOT, STANDIN, chaos, environment, run, suite

pytestmark = pytest.mark.slow

FAST = {"options": {"step_s": 0.005}}


def stages(events: list[dict[str, object]], fault: str) -> list[str]:
    return [str(e["event"]).removeprefix("fault.") for e in events if e.get("fault") == fault]


def test_the_stand_in_suite_passes_with_evidence_for_every_fault(tmp_path: Path) -> None:
    done = run(STANDIN / "suite.yaml", tmp_path / "r")
    assert done.code == 0, done.out + done.err
    kill, freeze, by_time, quiet = done.report["scenarios"]
    assert [s["verdict"] for s in done.report["scenarios"]] == ["PASS"] * 4
    assert all(f["fired"] and f["verified"] for s in (kill, freeze, by_time) for f in s["faults"])
    assert freeze["faults"][0]["undo_verified"]
    assert quiet["recoveries"] == []
    assert stages(done.history("freeze"), "f1") == [
        "armed", "reached", "fired", "verified", "undone", "undo_verified",
    ]  # fmt: skip
    fired = [e["t"] for e in done.history("by_time") if e["event"] == "fault.fired"]
    assert 0.05 <= fired[1] - fired[0] <= 0.2
    assert not done.temp().exists()
    assert processes.marked(json.loads((tmp_path / "r/undo.jsonl").read_text().splitlines()[0])["run"]) == []


def test_seed_plan_and_replay_command_are_printed(tmp_path: Path) -> None:
    done = run(suite(tmp_path, QUIET, **FAST), tmp_path / "r", "--seed", 5)
    assert "seed 5" in done.out
    assert str(tmp_path / "r" / "plan.json") in done.out
    assert f"torch-chaos replay {tmp_path / 'r' / 'plan.json'}" in done.out
    assert done.report["seed"] == 5


def test_replay_repeats_the_plan_and_report_judges_without_running(tmp_path: Path) -> None:
    first = run(suite(tmp_path, KILL, **FAST), tmp_path / "r")
    again = chaos("replay", tmp_path / "r/plan.json", "--report-dir", tmp_path / "s", "--format", "plain")
    assert (first.code, again.returncode) == (0, 0), again.stdout
    assert (tmp_path / "r/plan.json").read_bytes() == (tmp_path / "s/plan.json").read_bytes()
    before = json.loads((tmp_path / "r/report.json").read_text())
    judged = chaos("report", tmp_path / "r", "--format", "json")
    after = json.loads(judged.stdout)
    assert judged.returncode == 0
    assert after["scenarios"] == before["scenarios"]


def test_a_trigger_that_never_comes_is_inconclusive_and_says_why(tmp_path: Path) -> None:
    never = """\
  - name: never
    faults: [{fault: process.kill, where: {rank: 1}, when: {step: 999, phase: data}}]
"""
    done = run(suite(tmp_path, never, **FAST), tmp_path / "r")
    assert done.code == 2
    (scenario,) = done.report["scenarios"]
    assert scenario["verdict"] == "INCONCLUSIVE"
    assert (
        "its moment never came: step 999, data, rank 1; the target ended with exit code 0"
        in scenario["reason"]
    )


@pytest.mark.parametrize("target", [{"world": 0}, {"steps": 0}])
def test_an_empty_target_is_refused_before_anything_starts(tmp_path: Path, target: dict[str, int]) -> None:
    done = run(suite(tmp_path, QUIET, **target), tmp_path / "r")
    assert done.code == 4
    assert done.err.startswith("torch-chaos: ")
    assert "mend:" in done.err
    assert not (tmp_path / "r").exists()


def test_a_target_that_fails_without_faults_says_so_once_and_stops_nothing_else(tmp_path: Path) -> None:
    two = KILL + "  - name: other\n    target: {options: {flags: []}}\n"
    done = run(suite(tmp_path, two, options={"flags": ["--fail"]}), tmp_path / "r")
    failed, other = done.report["scenarios"]
    assert done.code == 2
    assert failed["verdict"] == "ERROR"
    assert (
        "fails without any fault: exit code 1: ImportError: no module named 'flux_capacitor'"
        in failed["reason"]
    )
    assert other["verdict"] == "PASS"


def test_a_missing_script_is_one_message(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "suite: s\nscenarios:\n"
        "  - {name: a, target: {kind: recovery, workload: tiny_gtp, world: 2, steps: 3}}\n"
    )
    done = run(path, tmp_path / "r")
    assert done.code == 64
    assert "there is no workload 'tiny_gtp'" in done.err
    assert "did you mean 'tiny_gpt'?" in done.err
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("folder", ["/proc/nowhere/reports", "/sys/kernel/reports"])
def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path: Path, folder: str) -> None:
    done = run(suite(tmp_path, QUIET, **FAST), Path(folder))
    assert done.code == 4
    assert "reports cannot be written here" in done.err
    assert "--report-dir" in done.err


def test_two_runs_in_one_folder(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    folder.mkdir()
    with (folder / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = run(suite(tmp_path, QUIET, **FAST), folder)
    assert done.code == 4
    assert "another run is writing its report here" in done.err


def test_an_earlier_report_in_the_folder_is_moved_aside(tmp_path: Path) -> None:
    path = suite(tmp_path, QUIET, **FAST)
    for seed in (1, 2, 3):
        assert run(path, tmp_path / "r", "--seed", seed).code == 0
    seeds = [json.loads(p.read_text())["seed"] for p in sorted((tmp_path / "r").glob("**/report.json"))]
    assert sorted(seeds) == [1, 2, 3]
    assert json.loads((tmp_path / "r/report.json").read_text())["seed"] == 3


@pytest.mark.alone  # shared memory that nobody holds has no owner: a run beside would take it for its own
def test_what_a_target_leaves_behind_is_reported(tmp_path: Path) -> None:
    flags = ["--leave-shm", "--leave-file", "--orphan"]
    path = suite(tmp_path, "  - name: leaving\n", options={"step_s": 0.005, "flags": flags})
    done = run(path, tmp_path / "r")
    check = next(e for e in done.history("leaving") if e["event"] == "leak.check")
    assert [p["argv"] for p in check["processes"]] == ["sleep 30"]
    assert len(check["shm"]) == 1
    assert [Path(path).name.startswith("forgotten-") for path in check["files"]] == [True]
    assert done.report["scenarios"][0]["verdict"] == "VIOLATED"
    # Seen, reported, and then removed, so that the next run does not find it.
    assert not processes.is_alive(check["processes"][0]["pid"], check["processes"][0]["start_ticks"])
    shm.remove(check["shm"])


def test_a_target_that_never_ends_is_stopped_at_its_bound(tmp_path: Path) -> None:
    slow = "  - name: slow\n    bounds: {run: 500ms}\n    target: {options: {step_s: 0.2}}\n    faults: []\n"
    done = run(suite(tmp_path, slow), tmp_path / "r")
    assert done.code == 2
    assert "did not end in time" in done.report["scenarios"][0]["reason"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("after_s", [0.05, 0.4, 0.9, 1.6])
def test_an_interruption_rolls_back_and_reports(
    tmp_path: Path, number: signal.Signals, after_s: float
) -> None:
    freeze = """\
  - name: freeze
    faults: [{fault: process.stop, where: {rank: 1}, when: {step: 6, phase: data}, for: 10s}]
"""
    path = suite(tmp_path, freeze, options={"step_s": 0.05}, steps=60)
    command = [*COMMAND, "run", str(path), "--report-dir", str(tmp_path / "r"), "--format", "plain"]
    process = subprocess.Popen(
        command, env=environment(), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    time.sleep(after_s)
    process.send_signal(number)
    time.sleep(0.02)
    process.send_signal(number)  # an impatient user does not cut the clean-up short
    out, err = process.communicate(timeout=20)
    assert first.startswith("standin: 1 scenarios")
    assert process.returncode == 130, out + err
    report = json.loads((tmp_path / "r/report.json").read_text())
    assert report["exit_code"] == 130
    opening = json.loads((tmp_path / "r/undo.jsonl").read_text().splitlines()[0])
    assert processes.marked(opening["run"]) == []
    assert not Path(opening["temp"]).exists()
    assert "clean" in chaos("rollback", tmp_path / "r").stdout


def test_json_goes_to_stdout_alone(tmp_path: Path) -> None:
    path = suite(tmp_path, QUIET, **FAST)
    done = chaos(
        "run", path, "--report-dir", tmp_path / "r", "--format", "json", "--junit", tmp_path / "j.xml"
    )
    assert json.loads(done.stdout) == json.loads((tmp_path / "r/report.json").read_text())
    assert "seed 1" in done.stderr
    assert "<testsuite" in (tmp_path / "j.xml").read_text()
