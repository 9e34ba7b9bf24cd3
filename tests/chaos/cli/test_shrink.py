"""`shrink`: what it chooses to shrink, and two hunts with real processes of the stand-in job."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.cli.shrink import Wanted, choose, shrink
from chaos.errors import UserError
from chaos.plan import Plan, PlannedScenario
from chaos.shrinking.failure import Failure
from tests.chaos.report.sample import report
from tests.chaos.runs import COMMAND, ROOT, chaos, environment, run, suite
from tests.chaos.shrinking.planned import kill, planned

# Each kill alone breaks the bound; nothing else does.
KILLS = """\
  - name: kills
    bounds: {recover: 1ms}
    faults:
      - {fault: process.kill, where: {rank: 1}, when: {step: 4}}
      - {fault: process.kill, where: {rank: 2}, when: {step: 7}}
      - {fault: process.kill, where: {rank: 0}, when: {step: 10}}
      - {fault: process.kill, where: {rank: 1}, when: {step: 13}}
"""
BOUND = "recovered_within_bounds"


def put(folder: Path, *names: str, reported: bool = True) -> Path:
    """A run's folder whose plan has these scenarios of the sample report."""
    plan = planned([kill(1)])
    (one,) = plan.scenarios
    scenarios = [PlannedScenario(**{**vars(one), "name": name}) for name in names]
    folder.mkdir(parents=True, exist_ok=True)
    made = Plan(plan.suite, plan.seed, plan.folder, scenarios)
    (folder / "plan.json").write_text(made.to_json())
    if reported:
        (folder / "report.json").write_text(json.dumps(report()))
    return folder


def chosen(source: Path, only: str | None = None, invariant: str | None = None) -> tuple[str, Failure | None]:
    found = choose(Wanted(source, only, invariant))
    return found.scenario.name, found.failure


def test_of_a_report_it_takes_the_scenario_that_violates(tmp_path: Path) -> None:
    folder = put(tmp_path, "kill_in_backward", "stale_state")
    for source in (folder, folder / "report.json", folder / "plan.json"):
        name, failure = chosen(source)
        assert name == "stale_state"
        assert failure is not None
    assert chosen(folder, None, "replicas_agree")[1] == Failure("replicas_agree")


def test_of_a_plan_alone_it_takes_the_one_that_is_named(tmp_path: Path) -> None:
    folder = put(tmp_path, "a_one", "b_two", reported=False)
    assert chosen(folder, "b_*") == ("b_two", None)
    assert chosen(folder, "a_one", "replicas_agree") == ("a_one", Failure("replicas_agree"))
    with pytest.raises(UserError, match="2 scenarios could be meant: a_one, b_two"):
        chosen(folder)
    with pytest.raises(UserError, match="no scenario matches 'c'"):
        chosen(folder, "c")


def test_what_did_not_fail_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing to shrink: the verdict is PASS"):
        chosen(put(tmp_path, "kill_in_backward"))
    with pytest.raises(UserError, match=r"plan\.json: cannot be read"):
        chosen(tmp_path / "nowhere" / "plan.json")
    with pytest.raises(UserError, match="--budget: 'soon' is not a duration"):
        shrink(Wanted(tmp_path, budget="soon"))


def test_a_job_that_was_attached_to_cannot_be_run_again(tmp_path: Path) -> None:
    folder = put(tmp_path, "stale_state", reported=False)
    plan = json.loads((folder / "plan.json").read_text())
    plan["scenarios"][0]["target"]["kind"] = "attached"
    (folder / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(UserError, match="stale_state struck a job that the tool had not started"):
        chosen(folder)


@pytest.mark.slow
def test_a_failing_run_comes_down_to_one_fault_and_fails_again(tmp_path: Path) -> None:
    first = run(suite(tmp_path, KILLS), tmp_path / "first")
    assert first.code == 1, first.out + first.err
    out = tmp_path / "small"
    done = chaos("shrink", first.folder, "--out", out, "--invariant", BOUND, timeout_s=150.0)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "run once more, it fails again" in done.stdout
    assert f"{BOUND} does not hold with 1 fault, 2 ranks" in done.stdout
    (small,) = Plan.from_dict(json.loads((out / "plan.json").read_text())).scenarios
    assert [fault.name for fault in small.faults] == ["process.kill"]
    assert small.faults[0].when["step"] <= 4
    tried = [json.loads(line) for line in (out / "shrink.jsonl").read_text().splitlines()]
    assert tried[0] == {**tried[0], "change": "only f1, f2", "faults": 2, "failed": True}
    assert [path.name for path in (out / "work").glob("run-*")] == [
        f"run-{[t for t in tried if t['failed']][-1]['run']}"
    ]
    # The test that it wrote runs the plan, and fails for as long as the bug is there.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", out, out]
    tested = subprocess.run(
        list(map(str, command)),
        env=environment(),
        cwd=out,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert tested.returncode == 1, tested.stdout + tested.stderr
    assert f"{BOUND}: recovery" in tested.stdout


@pytest.mark.slow
def test_interrupted_it_keeps_the_smallest_so_far(tmp_path: Path) -> None:
    path, out = suite(tmp_path, KILLS), tmp_path / "small"
    made = tmp_path / "plan.json"
    made.write_text(chaos("plan", path, "--format", "json").stdout)
    process = subprocess.Popen(
        [*COMMAND, "shrink", str(made), "--out", str(out), "--invariant", BOUND],
        env=environment(), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    said = ""
    with process:
        while "  fails  " not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
        process.send_signal(signal.SIGINT)
        said += process.stdout.read()
    assert process.returncode == 130, said
    assert "interrupted; what there is, is in" in said
    (small,) = Plan.from_dict(json.loads((out / "plan.json").read_text())).scenarios
    assert 1 <= len(small.faults) < 4
    assert (out / "test_kills.py").is_file()
    left = json.loads((out / "work" / "undo.jsonl").read_text().splitlines()[-1])
    assert left.get("clean", True) is True
    assert chaos("rollback", out / "work").returncode == 0


@pytest.mark.slow
def test_a_failure_that_does_not_come_again_is_inconclusive(tmp_path: Path) -> None:
    path = suite(tmp_path, KILLS.replace("1ms", "20s"))
    made = tmp_path / "plan.json"
    made.write_text(chaos("plan", path, "--format", "json").stdout)
    done = chaos("shrink", made, "--out", tmp_path / "small", "--invariant", BOUND)
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"kills did not violate {BOUND} in 3 runs, the last was PASS" in done.stderr
