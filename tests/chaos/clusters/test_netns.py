"""Nodes as network namespaces: they reach each other and nothing else, and nothing of them is left."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaos.clusters import contained, netns, processes
from chaos.clusters.base import Plot
from chaos.clusters.netns import NetnsCluster
from chaos.errors import TargetFailed
from injectors import undo
from injectors.cluster import undoing
from tests.chaos.clusters import support


def run_name() -> str:
    return f"test-{os.getpid()}-{secrets.token_hex(3)}"


@pytest.fixture
def cluster(require: Callable[[str], None]) -> Iterator[NetnsCluster]:
    require("netns")
    made = NetnsCluster(Plot(run_name(), "three", 3))
    made.open()
    yield made
    assert made.destroy() == []
    assert made.left() == []


@pytest.mark.slow
def test_nodes_reach_each_other_each_in_a_network_of_its_own(cluster: NetnsCluster, tmp_path: Path) -> None:
    log = tmp_path / "log"
    seen = [support.said(cluster, node.index, log, support.NETWORK)["net"] for node in cluster.nodes]
    assert len({*seen, os.stat("/proc/self/ns/net").st_ino}) == 4
    assert len({node.address for node in cluster.nodes}) == 3
    for other in cluster.nodes[1:]:
        assert support.said(cluster, 0, log, support.KNOCK, other.address) == 111


@pytest.mark.slow
def test_a_command_tells_how_it_ended_and_may_not_change_the_network(
    cluster: NetnsCluster, tmp_path: Path
) -> None:
    running = support.start(cluster, 1, tmp_path / "log", ["sh", "-c", "exit 7"])
    assert support.wait_end(running).code == 7
    running.stop()
    # A job is no root of its node's network: what a fault does there, the job can't undo.
    running = support.start(cluster, 1, tmp_path / "log", ["ip", "link", "set", "lo", "down"])
    assert not support.wait_end(running).well
    running.stop()


@pytest.mark.slow
def test_a_node_that_was_killed_comes_back_under_its_name_and_address(
    cluster: NetnsCluster, tmp_path: Path
) -> None:
    before = cluster.nodes[1]
    running = support.start(cluster, 1, tmp_path / "log", ["sleep", "60"])
    for pid in [*cluster.processes_of(1), before.pid]:
        with contextlib.suppress(ProcessLookupError):  # it may have ended with the one before
            os.kill(pid, signal.SIGKILL)
    assert support.wait_end(running).signal == 9
    assert processes.wait_ended(before.pid, 10.0)
    running.stop()
    with pytest.raises(TargetFailed, match="node1 is gone"):
        support.start(cluster, 1, tmp_path / "log", ["true"])
    after = cluster.revive(1)
    assert (after.name, after.address, after.interface) == (before.name, before.address, before.interface)
    assert after.pid != before.pid
    assert support.said(cluster, 0, tmp_path / "log2", support.KNOCK, after.address) == 111


@pytest.mark.slow
def test_what_runs_on_a_node_ends_with_the_cluster(cluster: NetnsCluster, tmp_path: Path) -> None:
    running = support.start(cluster, 2, tmp_path / "log", ["sleep", "60"])
    nodes = list(cluster.nodes)
    assert running.pid in cluster.processes_of(2)
    running.stop()
    assert cluster.destroy() == []
    assert not any(processes.is_alive(node.pid, node.start_ticks) for node in nodes)
    assert cluster.destroy() == []
    with pytest.raises(TargetFailed):
        cluster.revive(0)


@pytest.mark.slow
def test_undo_ends_this_cluster_and_no_other(cluster: NetnsCluster) -> None:
    other = NetnsCluster(Plot(cluster.plot.run, "other", 1))
    other.open()
    try:
        record = cluster.undo_record().as_dict()
        result = undo.carry_out(json.loads(json.dumps(record)))
        assert result["done"]
        assert "ended" in result["detail"]
        assert cluster.left() == []
        assert processes.is_alive(other.nodes[0].pid, other.nodes[0].start_ticks)
        assert undo.carry_out(record)["detail"] == "no namespace is kept"
    finally:
        assert other.destroy() == []


@pytest.mark.slow
def test_the_kernel_removes_everything_when_the_tool_is_killed(require: Callable[[str], None]) -> None:
    require("netns")
    code = f"""
import os, signal
from chaos.clusters.base import Plot
from chaos.clusters.netns import NetnsCluster
cluster = NetnsCluster(Plot({run_name()!r}, "gone", 2))
cluster.open()
print(*(os.stat(f"/proc/{{node.pid}}/ns/net").st_ino for node in cluster.nodes), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    env = {**os.environ, "PYTHONPATH": str(support.ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    inodes = [int(word) for word in done.stdout.split()]
    assert len(inodes) == 2, done.stderr
    limit = time.monotonic() + 10
    while any(undoing.in_network(inode) for inode in inodes):
        assert time.monotonic() < limit
        time.sleep(0.01)


@pytest.mark.slow
def test_an_ordinary_user_may_have_nodes_too(require: Callable[[str], None]) -> None:
    require("netns")
    code = f"""
import json, os, tempfile
from pathlib import Path
from chaos.clusters.base import Plot
from chaos.clusters.netns import NetnsCluster
from tests.chaos.clusters import support
assert os.getuid() != 0
cluster = NetnsCluster(Plot({run_name()!r}, "ordinary", 2))
cluster.open()
log = Path(tempfile.mkdtemp()) / "log"
found = support.said(cluster, 0, log, support.KNOCK, cluster.nodes[1].address)
own = support.said(cluster, 0, log, support.NETWORK)
print(json.dumps([cluster.how, found, own["uid"], cluster.destroy(), cluster.left()]))
"""
    done = support.ordinary(code)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["in a user namespace, without any privilege", 111, 0, [], []]


@pytest.mark.slow
def test_the_probe_says_what_works_or_what_would_mend_it(
    require: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    require("netns")
    assert netns.probe().works

    def refused(self: object, env: object, own_user: bool) -> None:
        raise netns.KeeperRefused("unshare: Operation not permitted")

    monkeypatch.setattr(netns._Keeper, "__init__", refused)
    found = netns.probe()
    assert not found.works
    assert "Operation not permitted" in found.detail
    assert "root" in found.mend


@pytest.mark.slow
def test_root_makes_nodes_where_the_kernel_refuses_user_namespaces(
    require: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    require("netns")
    if os.geteuid() != 0:
        pytest.skip("only root may")
    real = netns._Keeper.__init__

    def refused(self: netns._Keeper, env: dict[str, str], own_user: bool) -> None:
        if own_user:
            raise netns.KeeperRefused("unshare: Operation not permitted")
        real(self, env, own_user)

    monkeypatch.setattr(netns._Keeper, "__init__", refused)
    cluster = NetnsCluster(Plot(run_name(), "root", 2))
    cluster.open()
    try:
        assert "made by root" in cluster.how
        fds = cluster.namespaces(0)
        assert len(fds) == 1
        os.close(fds[0])
        found = support.said(cluster, 0, tmp_path / "log", support.KNOCK, cluster.nodes[1].address)
        assert found == 111
    finally:
        assert cluster.destroy() == []
        assert cluster.left() == []


@pytest.mark.slow
def test_a_command_that_may_have_no_further_namespace_is_on_its_node_all_the_same(
    cluster: NetnsCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(contained.Contained, "start", classmethod(lambda cls, *_: None))
    seen = support.said(cluster, 1, tmp_path / "log", support.NETWORK)["net"]
    assert seen == os.stat(f"/proc/{cluster.nodes[1].pid}/ns/net").st_ino
    one, other = (
        support.start(cluster, index, tmp_path / f"{index}", ["sh", "-c", "sleep 60 & wait"])
        for index in (0, 1)
    )
    # Two commands of one run: what ends one must not end the other.
    one.stop()
    assert other.poll() is None
    other.stop()
    assert support.wait_end(other).signal == 9
