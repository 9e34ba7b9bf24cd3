"""Whole runs on nodes: every fault of nodes, its proof, and nothing left of the cluster."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from injectors.cluster import undoing
from tests.chaos import runs
from tests.chaos.clusters import support

JOB = runs.STANDIN / "nodes_job.py"
STEPS = 120


def suite(tmp_path: Path, scenarios: str, kind: str = "netns", nodes: int = 3, *more: str) -> Path:
    argv = [
        "{python}",
        "-u",
        str(JOB),
        "{node_rank}",
        "{master_addr}",
        "{master_port}",
        str(STEPS),
        "{nnodes}",
        *more,
    ]
    target: dict[str, Any] = {
        "kind": "command",
        "argv": argv,
        "world": nodes,
        "steps": STEPS,
        "digest": False,
        "cluster": {"kind": kind, "nodes": nodes},
        "step": {"rule": "stdout", "pattern": r"step (?P<step>\d+)"},
    }
    path = tmp_path / "suite.yaml"
    path.write_text(
        f"suite: nodes\nseed: 1\ndefaults:\n  target: {json.dumps(target)}\n"
        f"  bounds: {{recover: 10s, run: 40s}}\nscenarios:\n{scenarios}"
    )
    return path


def stages(history: list[dict[str, Any]], fault: str = "f1") -> list[str]:
    return [event["event"].removeprefix("fault.") for event in history if event.get("fault") == fault]


def clean(history: list[dict[str, Any]]) -> bool:
    check = next(event for event in history if event["event"] == "leak.check")
    return not any(check[place] for place in ("processes", "shm", "sockets", "files", "nodes"))


KILLED = """\
  - name: killed
    faults: [{fault: node.kill, where: {node: 1}, when: {step: 10}}]
"""
BACK = """\
  - name: back
    faults:
      - {id: gone, fault: node.kill, where: {node: 1}, when: {step: 10}}
      - {fault: node.return, where: {node: 1}, when: {after_fault: gone, after_s: 300ms}}
"""
PREEMPTED = """\
  - name: preempted
    faults: [{fault: node.preempt, where: {node: 2}, when: {step: 10}, with: {grace_s: 0.5}}]
"""
ISOLATED = """\
  - name: isolated
    faults: [{fault: node.isolate, where: {node: 1}, when: {step: 10}, for: 500ms}]
"""
NOTHING = """\
  - name: killed_twice
    faults:
      - {id: gone, fault: node.kill, where: {node: 1}, when: {step: 10}}
      - {fault: node.kill, where: {node: 1}, when: {after_fault: gone, after_s: 200ms}}
    expect: INCONCLUSIVE
"""


@pytest.mark.slow
def test_each_fault_of_nodes_is_proven_and_leaves_nothing(
    tmp_path: Path, require: Callable[[str], None]
) -> None:
    require("netns")
    require("nft")
    scenarios = KILLED + BACK + PREEMPTED + ISOLATED + NOTHING
    done = runs.run(suite(tmp_path, scenarios), tmp_path / "report")
    assert done.code == 0, done.out + done.err
    histories = {name: done.history(name) for name in ("killed", "back", "preempted", "isolated")}
    assert all(clean(history) for history in histories.values())
    for name in ("killed", "preempted"):
        assert stages(histories[name]) == ["armed", "reached", "fired", "verified"], name
    assert stages(histories["back"], "f2") == ["armed", "reached", "fired", "verified"]
    assert stages(histories["isolated"])[2:] == ["fired", "verified", "undone", "undo_verified"]
    fired = next(event for event in histories["killed"] if event["event"] == "fault.fired")
    assert (fired["node"], fired["ranks"]) == (1, [1])
    # Its output goes on in the same file when it is back.
    said = (tmp_path / "report" / "back" / "node1.stdout.log").read_text()
    assert said == "connected\n" * 2
    assert (tmp_path / "report" / "preempted" / "node2.stdout.log").read_text().endswith("signal 15\n")
    second = done.history("killed_twice")
    assert stages(second, "f2") == ["armed", "reached", "failed"]
    assert "no node that is meant was there any more" in json.dumps(second)


@pytest.mark.slow
def test_who_ignores_the_notice_is_ended_after_its_grace(
    tmp_path: Path, require: Callable[[str], None]
) -> None:
    require("netns")
    done = runs.run(suite(tmp_path, PREEMPTED, "netns", 3, "--linger"), tmp_path / "report")
    assert done.code == 0, done.out + done.err
    history = done.history("preempted")
    fired, seen = (
        next(event for event in history if event["event"] == f"fault.{stage}")
        for stage in ("fired", "verified")
    )
    assert seen["t"] - fired["t"] >= 0.5
    assert seen["evidence"]["data"]["ended"][0]["node"] == 2


@pytest.mark.slow
def test_a_container_is_killed_and_brought_back(tmp_path: Path, require: Callable[[str], None]) -> None:
    require("docker")
    done = runs.run(suite(tmp_path, BACK, "docker", 2), tmp_path / "report")
    assert done.code == 0, done.out + done.err
    history = done.history("back")
    assert clean(history)
    assert stages(history) == stages(history, "f2") == ["armed", "reached", "fired", "verified"]
    journal = (tmp_path / "report" / "undo.jsonl").read_text()
    assert journal.count("cluster.docker") == 2
    assert (tmp_path / "report" / "back" / "node1.stdout.log").read_text() == "connected\n" * 2


@pytest.mark.slow
def test_a_tool_that_is_killed_leaves_no_container(tmp_path: Path, require: Callable[[str], None]) -> None:
    require("docker")
    path = suite(tmp_path, KILLED, "docker", 2)
    command = [*runs.COMMAND, "run", str(path), "--report-dir", str(tmp_path / "report")]
    tool = subprocess.Popen(
        command, env=runs.environment(), cwd=runs.ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    journal = tmp_path / "report" / "undo.jsonl"
    label = undoing.LABEL

    def ours() -> str:
        run = json.loads(journal.read_text().splitlines()[0])["run"]
        words = ["docker", "ps", "-a", "-q", "--filter", f"label={label}={run}"]
        networks = ["docker", "network", "ls", "-q", "--filter", f"label={label}={run}"]
        images = ["docker", "images", "-q", "--filter", f"label={label}={run}"]
        return "".join(subprocess.check_output(each, text=True) for each in (words, networks, images))

    limit = time.monotonic() + 30
    while not (journal.exists() and "cluster.docker" in journal.read_text() and ours()):
        assert time.monotonic() < limit
        assert tool.poll() is None
        time.sleep(0.02)
    tool.send_signal(signal.SIGKILL)
    tool.wait()
    limit = time.monotonic() + 30
    while '"closed"' not in journal.read_text():
        assert time.monotonic() < limit
        time.sleep(0.05)
    assert ours() == ""
    assert '"clean":true' in journal.read_text().splitlines()[-1]


@pytest.mark.slow
def test_an_ordinary_user_runs_a_suite_on_nodes(tmp_path: Path, require: Callable[[str], None]) -> None:
    require("netns")
    require("nft")
    path = suite(tmp_path, KILLED + ISOLATED)
    # Where an ordinary user may read: pytest's own folders are for the user who runs it.
    code = """
import pathlib, subprocess, sys, tempfile, os
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "suite.yaml").write_text(sys.argv[1])
command = [sys.executable, "-m", "chaos", "run", "suite.yaml", "--report-dir", "report", "--format", "plain"]
assert os.getuid() != 0
sys.exit(subprocess.run(command, cwd=folder).returncode)
"""
    done = support.ordinary(code, path.read_text())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 PASS" in done.stdout


def test_faults_of_nodes_need_nodes(tmp_path: Path) -> None:
    done = runs.run(suite(tmp_path, KILLED, "local"), tmp_path / "report")
    assert done.code == 64
    assert "all nodes of a `local` cluster are this host" in done.err
    done = runs.run(runs.suite(tmp_path, KILLED), tmp_path / "report")
    assert done.code == 64
    assert "this target has no nodes" in done.err


@pytest.mark.slow
def test_a_local_cluster_runs_one_command_a_node(tmp_path: Path) -> None:
    done = runs.run(suite(tmp_path, runs.QUIET, "local"), tmp_path / "report")
    assert done.code == 0, done.out + done.err
    assert (tmp_path / "report" / "quiet" / "node2.stdout.log").read_text() == "connected\n"


@pytest.mark.slow
def test_a_dead_daemon_is_a_refusal(tmp_path: Path) -> None:
    path = suite(tmp_path, runs.QUIET, "docker")
    done = runs.chaos("run", path, "--report-dir", tmp_path / "r", DOCKER_HOST=f"unix://{tmp_path}/no.sock")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "no docker daemon answers" in done.stderr
    assert "mend: start it" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["netns", "docker"])
def test_two_runs_at_once_do_not_see_each_other(
    tmp_path: Path, kind: str, require: Callable[[str], None]
) -> None:
    require(kind)
    tools = []
    for name, scenarios in (("broken", KILLED), ("whole", runs.QUIET)):
        folder = tmp_path / name
        folder.mkdir()
        words = ["run", str(suite(folder, scenarios, kind, 2)), "--report-dir", str(folder / "report")]
        tools.append(
            subprocess.Popen(
                [*runs.COMMAND, *words, "--format", "plain"],
                env=runs.environment(),
                cwd=runs.ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    for tool in tools:
        out, _ = tool.communicate(timeout=120)
        assert tool.returncode == 0, out
    lines = (tmp_path / "whole" / "report" / "quiet" / "history.jsonl").read_text().splitlines()
    assert clean([json.loads(line) for line in lines])
