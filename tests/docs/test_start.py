"""The first five minutes, and the script of docs/writing-a-workload.md, as the pages have them."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.runs import COMMAND, ROOT, environment
from tests.docs.blocks import Block, blocks

# Each starts interpreters that import torch; a loaded machine takes its time.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def shown(page: str, language: str) -> list[Block]:
    return [block for block in blocks(language) if block.page == page]


def run(folder: Path, *command: str, **env: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment(PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1", **env),
        capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_init_writes_the_suite_that_the_page_shows(tmp_path: Path) -> None:
    (script,) = shown("docs/start.md", "python")
    (suite,) = shown("docs/start.md", "yaml")
    (tmp_path / script.title).write_text(script.text)
    run(tmp_path, *COMMAND, "init", script.title, "--nproc-per-node", "2")
    assert (tmp_path / "chaos.yaml").read_text() == suite.text
    assert "2 scenarios, no problem" in run(tmp_path, *COMMAND, "validate", "chaos.yaml")
    assert "kill_in_backward" in run(tmp_path, *COMMAND, "plan", "chaos.yaml", "--format", "plain")


def test_the_first_script_trains_and_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    (script,) = shown("docs/start.md", "python")
    (tmp_path / script.title).write_text(script.text)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    first = run(tmp_path, sys.executable, script.title, "--steps", "2", **alone)
    assert [line.split(" loss ")[0] for line in first.splitlines()] == ["step 0", "step 1"]
    later = run(tmp_path, sys.executable, script.title, "--steps", "3", **alone)
    assert [line.split(" loss ")[0] for line in later.splitlines()] == ["step 2"]


def test_the_script_for_recovery_trains(tmp_path: Path) -> None:
    (script,) = shown("docs/writing-a-workload.md", "python")
    (tmp_path / script.title).write_text(script.text)
    launch = (sys.executable, "-m", "recovery.launch", "--nproc-per-node", "2", "--spares", "0")
    run(tmp_path, *launch, script.title, "--steps", "3")
