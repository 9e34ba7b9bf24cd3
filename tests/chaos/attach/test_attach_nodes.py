"""Faults of networks on a job whose nodes somebody else has made are taken back, also without the tool."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaos.attach import nodes
from chaos.attach.session import job_of
from chaos.clusters.base import Output, Plot
from chaos.clusters.netns import NetnsCluster
from chaos.clusters.running import Running
from injectors.fault import Node
from injectors.net import space
from tests.chaos.attach.test_attach import WHOLE, attached, report_of, stages_of
from tests.chaos.runs import chaos

pytestmark = pytest.mark.slow

UNDONE_S = 10.0
WAITS = "import signal; signal.pause()"


@pytest.fixture
def job(require: Callable[[str], None], tmp_path: Path) -> Iterator[tuple[NetnsCluster, list[Running]]]:
    """Two ranks, each in a network namespace; no process of them carries the marker of a run."""
    require("netns")
    require("nft")
    if os.geteuid() != 0:
        pytest.skip(
            "the ranks are in a user namespace below that of their network, which root alone may enter"
        )
    cluster = NetnsCluster(Plot(f"test-{secrets.token_hex(3)}", "attached", 2))
    cluster.open()
    ranks: list[Running] = []
    try:
        with (tmp_path / "log").open("ab") as log:
            output = Output(log.fileno(), log.fileno())
            for number in range(2):
                env = {"RANK": str(number), "WORLD_SIZE": "2", "MASTER_ADDR": "node0", "MASTER_PORT": "29500"}
                argv = [sys.executable, "-I", "-S", "-c", WAITS]
                ranks.append(cluster.start(number, argv, {**os.environ, **env}, None, output))
        yield cluster, ranks
    finally:
        for running in ranks:
            running.stop()
        cluster.destroy()


def tables(node: Node) -> str:
    """The nft tables in a node."""
    where = space.Space(node.pid, space.inode(node.pid, "net") or 0, space.inode(node.pid, "user") or 0)
    return space.run(where, ["nft", "list", "tables"])


def test_nodes_are_found_by_the_network_that_ranks_are_in(
    job: tuple[NetnsCluster, list[Running]],
) -> None:
    cluster, ranks = job
    found = nodes.look(job_of([running.pid for running in ranks]))
    assert [(node.address, node.interface) for node in found.nodes] == [
        (node.address, node.interface) for node in cluster.nodes
    ]
    assert [found.node_of(0), found.node_of(1), found.ranks_on(1)] == [0, 1, [1]]


def test_a_node_is_cut_off_and_comes_back(job: tuple[NetnsCluster, list[Running]], tmp_path: Path) -> None:
    _, ranks = job
    words = ["--fault", "net.partition", "--node", 1, "--for", "1s", "--report-dir", tmp_path / "r"]
    done = chaos("attach", *(running.pid for running in ranks), *words, "--format", "plain")
    assert done.returncode == 0, done.stdout + done.stderr
    assert stages_of(tmp_path / "r") == WHOLE
    (fault,) = report_of(tmp_path / "r")["scenarios"][0]["faults"]
    assert "2 ways are silent that answered before" in fault["evidence"]["verified"]["what"]
    assert [running.poll() for running in ranks] == [None, None]


def test_a_cut_heals_when_the_tool_is_killed(job: tuple[NetnsCluster, list[Running]], tmp_path: Path) -> None:
    cluster, ranks = job
    words = ["--fault", "net.partition", "--node", 1, "--for", "60s"]
    with attached(tmp_path / "r", *(running.pid for running in ranks), *words) as tool:
        limit = time.monotonic() + 60.0
        while not any(tables(node) for node in cluster.nodes):
            assert time.monotonic() < limit
            assert tool.poll() is None
            time.sleep(0.05)
    limit = time.monotonic() + UNDONE_S
    while any(tables(node) for node in cluster.nodes):
        assert time.monotonic() < limit, "the cut outlives the tool"
        time.sleep(0.05)
    assert chaos("rollback", tmp_path / "r").stdout == f"{tmp_path / 'r'}: clean\n"
    assert [running.poll() for running in ranks] == [None, None]
