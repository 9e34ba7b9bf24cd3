"""The plugin with real jobs: of the stand-in, which needs no torch, and of a user's own loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.testing.projects import KILL, TOO_LATE, Project, documented, standin_suite

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_suite_file_runs_each_scenario_as_a_test(project: Project) -> None:
    project.write("mine.yaml", standin_suite(KILL + TOO_LATE))
    done = project.pytest("mine.yaml", "-v")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(
        [
            "mine.yaml::kill PASSED*",
            "mine.yaml::too_late FAILED*",
            "*mine.yaml:8: too_late: expected PASS, got INCONCLUSIVE: faults_took_effect: *",
            "*- torch-chaos -*",
            "too_late: INCONCLUSIVE (expected PASS), seed 1",
            "first evidence: faults_took_effect: *",
            "fault f1 process.kill: did not fire",
            "timeline:",
            "*steps 0 to 19 committed",
            "*the job ended with exit code 0",
            "replay: torch-chaos replay */plan.json --only too_late",
        ]
    )
    # What failed is kept, what passed is not.
    (kept,) = project.path.glob("**/torch-chaos-reports/*")
    assert kept.name == "too_late"


WORKERS = """
import pytest

@pytest.mark.parametrize("number", range(4))
@pytest.mark.torch_chaos(suite="mine.yaml", only="kill")
def test_kill(torch_chaos, number):
    assert torch_chaos.run().assert_recovered(within_s=2.0).recoveries
"""


def test_workers_do_not_disturb_each_other(project: Project, tmp_path: Path) -> None:
    project.write("mine.yaml", standin_suite(KILL))
    project.write("test_workers.py", WORKERS)
    reports = project.path / "reports"
    done = project.pytest("-n", "2", f"--torch-chaos-report={reports}")
    done.assert_outcomes(passed=4)
    # Asked for by name, so kept although all is well; and complete, so that each can be judged again.
    assert sorted(path.name for path in reports.iterdir()) == [f"test_kill-{n}" for n in range(4)]
    assert all((path / "kill" / "history.jsonl").is_file() for path in reports.iterdir())


MORE = """

def crashes(steps):
    raise RuntimeError("no data")

def test_a_job_that_fails_by_itself_says_so(torch_chaos):
    assert torch_chaos.run(crashes, faults=["process.kill"]).verdict == "ERROR"
    torch_chaos.results[-1].assert_recovered()

def hangs(steps):
    run = recovery.join()
    model = torch.nn.Linear(8, 1)
    run.protect(model=model)
    ddp = run.data_parallel(model)
    def step(index):
        ddp(torch.randn(4, 8)).mean().backward(); model.zero_grad()
    for index in run.steps(steps):
        if run.generation > 1:
            with run.busy("evaluation", limit=300): waits_for_ever()
        run.step(step, index)

def waits_for_ever():
    import threading
    threading.Event().wait()

def test_a_deadline_shows_where_every_rank_is(torch_chaos):
    fault = {"fault": "process.kill", "where": {"rank": 1}, "when": {"step": 3}}
    torch_chaos.run(hangs, steps=9, faults=[fault], bounds={"run": "15s"}).assert_recovered()
"""


def test_a_users_first_file_kills_a_rank_and_sees_it_recover(project: Project) -> None:
    first = documented("test_first.py")
    assert len(first.splitlines()) <= 15
    project.write("test_first.py", first + MORE)
    done = project.pytest("-v")
    done.assert_outcomes(passed=1, failed=2)
    done.stdout.fnmatch_lines(
        [
            "*::test_a_killed_rank_is_replaced PASSED*",
            "*NotRecovered: test_a_job_that_fails_by_itself_says_so: ERROR: the target fails without*",
            "*NotRecovered: test_a_deadline_shows_where_every_rank_is: VIOLATED: *",
            "*every rank's Python stack when the deadline passed:",
            "*rank 0, pid *, state S:",
            "*test_first.py*, line * in step",
            "*rank 1, pid *, state S:",
            "*in waits_for_ever",
            "replay: torch-chaos replay *",
        ]
    )
    assert not list(project.path.glob("**/undo.jsonl")) or _closed(project.path)


def _closed(folder: Path) -> bool:
    """Whether the session's journal says that all is taken back."""
    (journal,) = folder.glob("**/undo.jsonl")
    return '"op":"closed","by":"engine","clean":true' in journal.read_text()
