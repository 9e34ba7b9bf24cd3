"""Nodes that are made for a test and gone after it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from chaos.clusters import processes
from tests.chaos.testing.projects import Project, documented

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

LOCAL = """
import subprocess, sys
import pytest

def test_two_local_nodes_without_a_word(torch_chaos_cluster):
    cluster = torch_chaos_cluster
    assert (cluster.kind, len(cluster.nodes)) == ("local", 2)
    said = cluster.run(1, [sys.executable, "-c", "import os; print(os.environ['TORCH_CHAOS_RUN']); exit(3)"])
    assert said.code == 3
    assert said.out.strip()

def test_what_takes_too_long_is_ended(torch_chaos_cluster):
    with pytest.raises(subprocess.TimeoutExpired):
        torch_chaos_cluster.run(0, ["sleep", "60"], timeout_s=0.2)

@pytest.mark.torch_chaos(cluster="moon")
def test_no_such_kind(torch_chaos_cluster): ...
"""

NETNS = """
import pytest

@pytest.mark.torch_chaos(cluster={"kind": "netns", "nodes": 3})
def test_nodes_have_networks_of_their_own(torch_chaos_cluster):
    addresses = [torch_chaos_cluster.run(n, ["ip", "-o", "-4", "address"]).out for n in range(3)]
    assert len({*addresses}) == 3
    for node, text in zip(torch_chaos_cluster.nodes, addresses):
        assert node.address in text
"""


def test_local_nodes(project: Project) -> None:
    project.write("test_local.py", LOCAL)
    done = project.pytest()
    done.assert_outcomes(passed=2, errors=1)
    done.stdout.fnmatch_lines(["*cluster='moon': one of local, netns, docker"])
    (journal,) = project.path.glob("**/undo.jsonl")
    assert processes.marked(json.loads(journal.read_text().splitlines()[0])["run"]) == []


def test_network_namespaces(project: Project, require: Callable[[str], None]) -> None:
    require("netns")
    project.write("test_netns.py", NETNS)
    project.write("test_nodes.py", documented("test_nodes.py"))
    project.write("test_entries.py", documented("test_entries.py"))
    project.pytest("--torch-chaos-require=netns").assert_outcomes(passed=3)
    (journal,) = project.path.glob("**/undo.jsonl")
    ops = [json.loads(line)["op"] for line in journal.read_text().splitlines()]
    assert ops == ["open", "undo", "undone", "undo", "undone", "closed"]


def test_what_is_missing_skips_and_what_is_required_fails(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    project.write("test_netns.py", NETNS.replace("netns", "docker"))
    done = project.pytest("-rs")
    done.assert_outcomes(skipped=1)
    done.stdout.fnmatch_lines(["SKIPPED * cluster docker: *"])
    required = project.pytest("--torch-chaos-require=docker")
    required.assert_outcomes(errors=1)
    required.stdout.fnmatch_lines(["--torch-chaos-require says that this machine has it"])
