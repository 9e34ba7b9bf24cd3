"""`torch-chaos attach` on an unchanged torchrun job, as a user runs it: nothing of the job is ended by it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chaos.attach.session import job_of
from chaos.clusters import processes
from chaos.undo import journal as journals
from injectors import signals
from tests.chaos.runs import COMMAND, ROOT, chaos, environment

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("endless.py")
STARTED_S, STEP_S, THAWED_S = 90.0, 30.0, 5.0


@dataclass
class Running:
    """A job of a stranger's."""

    launcher: subprocess.Popen[bytes]
    folder: Path

    @property
    def end(self) -> Path:
        return self.folder / "end"

    def step(self) -> int:
        try:
            return int((self.folder / "progress").read_text() or 0)
        except FileNotFoundError:
            return 0

    def wait_step(self, more_than: int, timeout_s: float = STEP_S) -> None:
        """Wait until the job has got further."""
        limit = time.monotonic() + timeout_s
        while self.step() <= more_than:
            assert time.monotonic() < limit, f"the job stands still at step {self.step()}"
            assert self.launcher.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.05)

    def goes_on(self) -> None:
        self.wait_step(self.step())

    def rank(self, number: int) -> int:
        return job_of([self.launcher.pid]).ranks[number].pid

    def attach(self, folder: Path, *args: object) -> subprocess.CompletedProcess[str]:
        return chaos("attach", self.launcher.pid, *args, "--report-dir", folder, "--format", "plain")


@contextmanager
def attached(folder: Path, *args: object) -> Iterator[subprocess.Popen[str]]:
    """`torch-chaos attach ARGS`, while it goes on; killed at the end if it still does."""
    words = map(str, ["attach", *args, "--report-dir", folder, "--format", "plain"])
    tool = subprocess.Popen(
        [*COMMAND, *words], env=environment(), cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        yield tool
    finally:
        tool.kill()
        tool.communicate()


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory, require: Callable[[str], None]) -> Iterator[Running]:
    require("torchrun")
    folder = tmp_path_factory.mktemp("job")
    # A way of starting it that shows no temporary file elsewhere.
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(folder)}
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(SCRIPT)]
    with (folder / "log").open("wb") as log:
        launcher = subprocess.Popen(
            [sys.executable, *words, str(folder / "end"), str(folder / "progress")],
            env=env, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        running = Running(launcher, folder)
        running.wait_step(0, STARTED_S)
        yield running
    finally:
        left = [*processes.descendants(launcher.pid)]
        launcher.kill()
        launcher.wait()
        for process in left:
            processes.kill(process)


def report_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found


def stages_of(folder: Path) -> list[str]:
    lines = (folder / "attach" / "history.jsonl").read_text().splitlines()
    names = [json.loads(line)["event"] for line in lines]
    return [name.removeprefix("fault.") for name in names if name.startswith("fault.")]


WHOLE = ["armed", "reached", "fired", "verified", "undone", "undo_verified"]


def test_without_a_fault_it_says_what_is_there(job: Running) -> None:
    done = chaos("attach", job.rank(1))
    assert done.returncode == 0, done.stderr
    assert f"launcher pid {job.launcher.pid}: " in done.stdout
    assert f"rank 1 of 2, pid {job.rank(1)}: " in done.stdout
    assert "can be armed: process.kill, process.stop" in done.stdout
    assert "faults of nodes and networks can't: all ranks share the network of this machine" in done.stdout


def test_a_rank_is_frozen_and_thawed_and_the_job_goes_on(job: Running, tmp_path: Path) -> None:
    before = {number: job.rank(number) for number in (0, 1)}
    done = job.attach(tmp_path, "--fault", "process.stop", "--rank", 1, "--for", "1s")
    assert done.returncode == 0, done.stdout + done.stderr
    assert stages_of(tmp_path) == WHOLE
    report = report_of(tmp_path)
    (scenario,) = report["scenarios"]
    (fault,) = scenario["faults"]
    assert (scenario["verdict"], fault["rank"]) == ("PASS", 1)
    assert fault["evidence"]["fired"]["data"]["pid"] == before[1]
    assert "in state T" in fault["evidence"]["verified"]["what"]
    ranks = report["environment"]["attached"]["ranks"]
    assert {rank["rank"]: (rank["pid"], rank["afterwards"]) for rank in ranks} == {
        number: (pid, "runs on") for number, pid in before.items()
    }
    assert f"rank 1, pid {before[1]}: runs on" in done.stdout
    assert "what it computes is not judged" in done.stdout
    assert (tmp_path / "report.html").is_file()
    job.goes_on()
    again = chaos("report", tmp_path, "--format", "plain")
    assert (again.returncode, report_of(tmp_path)["scenarios"]) == (0, report["scenarios"])


def test_a_rank_is_slowed_by_a_helper_that_is_gone_afterwards(job: Running, tmp_path: Path) -> None:
    words = ("--rank", 0, "--for", "3s", "--param", "mechanism=duty", "--param", "share=0.3")
    done = job.attach(tmp_path, "--fault", "host.cpu_throttle", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert stages_of(tmp_path) == WHOLE
    run = json.loads((tmp_path / journals.NAME).read_text().splitlines()[0])["run"]
    assert processes.marked(run) == []
    job.goes_on()


def test_the_store_is_found_in_the_launcher(job: Running, tmp_path: Path) -> None:
    done = job.attach(tmp_path, "--fault", "store.stop", "--rank", 1, "--for", "500ms")
    assert done.returncode == 0, done.stdout + done.stderr
    (fault,) = report_of(tmp_path)["scenarios"][0]["faults"]
    assert fault["evidence"]["fired"]["data"]["host"] == job.launcher.pid
    assert signals.state(job.launcher.pid) not in ("T", "t")
    job.goes_on()


def test_what_the_killed_tool_froze_is_thawed(job: Running, tmp_path: Path) -> None:
    frozen = job.rank(1)
    words = ("--fault", "process.stop", "--rank", 1, "--for", "60s")
    with attached(tmp_path, job.launcher.pid, *words):
        assert signals.wait_state(frozen, "T", 60.0) == "T"
    assert signals.wait_state(frozen, "RSD", THAWED_S) in ("R", "S", "D")
    job.goes_on()
    for _ in range(2):
        done = chaos("rollback", tmp_path)
        assert (done.returncode, done.stdout) == (0, f"{tmp_path}: clean\n")
    assert job.rank(1) == frozen
    job.goes_on()


def test_an_interruption_takes_everything_back_at_once(job: Running, tmp_path: Path) -> None:
    frozen = job.rank(0)
    words = ("--fault", "process.stop", "--rank", 0, "--for", "60s")
    with attached(tmp_path, job.launcher.pid, *words) as tool:
        assert signals.wait_state(frozen, "T", 60.0) == "T"
        tool.send_signal(signal.SIGINT)
        assert tool.wait(60.0) == 130
    assert stages_of(tmp_path)[-2:] == ["undone", "undo_verified"]
    job.goes_on()


def test_the_job_ends_well_after_all_of_it(job: Running, tmp_path: Path) -> None:
    replayed = job.attach(tmp_path, "--fault", "process.stop", "--rank", 1, "--for", "200ms")
    assert replayed.returncode == 0, replayed.stdout
    job.end.touch()
    assert job.launcher.wait(60.0) == 0, (job.folder / "log").read_text()
    gone = chaos("replay", tmp_path / "plan.json", "--report-dir", tmp_path / "again")
    assert gone.returncode == 4
    assert f"the job of this plan is gone: pid {job.launcher.pid} has ended" in gone.stderr
    assert not (tmp_path / "again").exists()
