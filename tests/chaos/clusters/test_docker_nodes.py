"""Nodes as containers: made of this host, labelled, and removed without touching anyone else's."""

from __future__ import annotations

import io
import json
import os
import secrets
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from chaos.clusters import docker_image, docker_nodes, make, processes
from chaos.clusters.base import Plot
from chaos.clusters.docker_nodes import DockerCluster
from chaos.errors import Refused, TargetFailed
from injectors import undo
from injectors.cluster import daemon, undoing
from tests.chaos.clusters import support


@pytest.fixture
def cluster(require: Callable[[str], None], tmp_path: Path) -> Iterator[DockerCluster]:
    require("docker")
    run = f"test-{os.getpid()}-{secrets.token_hex(3)}"
    made = DockerCluster(Plot(run, "two", 2, writable=(tmp_path,), readable=(support.ROOT,)))
    made.open()
    yield made
    assert made.destroy() == []
    assert made.left() == []


@pytest.mark.slow
def test_a_node_is_this_host_again_on_a_network_of_its_own(cluster: DockerCluster, tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert support.said(cluster, 0, log, support.KNOCK, cluster.nodes[1].address) == 111
    own = support.said(cluster, 0, log, support.NETWORK)
    assert own["net"] != os.stat("/proc/self/ns/net").st_ino
    assert own["uid"] == os.getuid()
    code = "import json, injectors, pydantic; print(json.dumps(injectors.__file__))"
    log.unlink()
    running = support.start(cluster, 0, log, [sys.executable, "-c", code], PYTHONPATH=str(support.ROOT))
    assert support.wait_end(running).well, log.read_text()
    running.stop()
    assert json.loads(log.read_text()).startswith(str(support.ROOT))


@pytest.mark.slow
def test_a_command_tells_how_it_ended(cluster: DockerCluster, tmp_path: Path) -> None:
    for script, code, number in (("exit 7", 7, None), ("kill -9 $$", None, 9), ("kill -15 $$", None, 15)):
        running = support.start(cluster, 1, tmp_path / "log", ["sh", "-c", script])
        end = support.wait_end(running)
        assert (end.code, end.signal) == (code, number), script
        running.stop()


@pytest.mark.slow
def test_one_process_may_take_the_descriptors_of_another(cluster: DockerCluster, tmp_path: Path) -> None:
    code = """
import ctypes, json, os, subprocess
child = subprocess.Popen(["sleep", "20"], stdin=subprocess.PIPE)
got = ctypes.CDLL(None, use_errno=True).syscall(438, os.pidfd_open(child.pid), 0, 0)
child.kill()
print(json.dumps(got >= 0))
"""
    assert support.said(cluster, 0, tmp_path / "log", code) is True


@pytest.mark.slow
def test_a_container_that_was_killed_comes_back(cluster: DockerCluster, tmp_path: Path) -> None:
    before = cluster.nodes[1]
    running = support.start(cluster, 1, tmp_path / "log", ["sleep", "60"])
    assert running.pid in cluster.processes_of(1)
    with closing(daemon.client(before.daemon)) as client:
        client.api.kill(before.container)
    assert support.wait_end(running).signal == 9
    running.stop()
    after = cluster.revive(1)
    assert (after.address, after.container) == (before.address, before.container)
    assert processes.is_alive(after.pid, after.start_ticks)
    assert support.said(cluster, 0, tmp_path / "log2", support.KNOCK, after.address) == 111


@pytest.mark.slow
def test_undo_removes_what_carries_both_labels_and_nothing_else(cluster: DockerCluster) -> None:
    with closing(daemon.client()) as client:
        # Ours by the run, but not this cluster's; and a stranger whose name is like ours.
        labels = {undoing.LABEL: cluster.plot.run, undoing.CLUSTER_LABEL: "another"}
        foreign = client.networks.create(f"torch-chaos-{cluster.plot.run}-two-copy", labels=labels)
        before = foreign.attrs
        try:
            record = json.loads(json.dumps(cluster.undo_record().as_dict()))
            result = undo.carry_out(record)
            assert result["done"]
            assert "removed 4" in result["detail"]
            assert cluster.left() == []
            assert undo.carry_out(record)["detail"] == "nothing of docker's is left"
            foreign.reload()
            assert foreign.attrs == before
        finally:
            foreign.remove()


def test_without_a_daemon_it_is_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(Refused) as refused:
        make.check({"kind": "docker", "nodes": 2})
    assert "no docker daemon answers at unix://" in refused.value.message
    assert "dockerd" in refused.value.mend
    cluster = DockerCluster(Plot("test", "none", 1))
    with pytest.raises(TargetFailed, match="no docker daemon"):
        cluster.open()
    assert cluster.destroy() == []
    result = undo.carry_out(cluster.undo_record().as_dict())
    assert not result["done"]


@pytest.mark.slow
def test_an_image_that_is_not_here_is_refused_and_not_pulled(require: Callable[[str], None]) -> None:
    require("docker")
    assert docker_nodes.probe().works
    with pytest.raises(Refused, match="no docker image 'torch-chaos-no-such-image'"):
        make.check({"kind": "docker", "nodes": 2, "image": "torch-chaos-no-such-image"})


def test_a_path_inside_another_one_is_mounted_once(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "ab").mkdir()
    paths = [str(tmp_path / name) for name in ("a/b", "ab", "a", "missing")]
    assert docker_image._outermost(paths) == [str(tmp_path / "a"), str(tmp_path / "ab")]


@pytest.mark.slow
def test_an_image_of_the_users_brings_its_own_programs(
    require: Callable[[str], None], tmp_path: Path
) -> None:
    require("docker")
    run = f"test-{os.getpid()}-{secrets.token_hex(3)}"
    # Almost nothing is in it: a shell of a fixed place, with the libraries that it needs.
    tree = io.BytesIO()
    with tarfile.open(fileobj=tree, mode="w") as tar:
        for path in ("/bin/sh", *_libraries("/bin/sh")):
            tar.add(os.path.realpath(path), path.lstrip("/"))
    name = f"torch-chaos-test:{run}"
    with closing(daemon.client()) as client:
        client.api.import_image_from_data(tree.getvalue(), repository="torch-chaos-test", tag=run)
        cluster = DockerCluster(Plot(run, "image", 1, name, writable=(tmp_path,)))
        try:
            make.check({"kind": "docker", "nodes": 1, "image": name})
            cluster.open()
            log = tmp_path / "log"
            script = 'echo "$PATH"; [ -e /usr/share ] && echo host; exit 3'
            running = support.start(cluster, 0, log, ["sh", "-c", script], PATH="/nowhere")
            assert support.wait_end(running).code == 3, log.read_text()
            running.stop()
            assert "nowhere" not in log.read_text()
            assert "host" not in log.read_text()
            assert (cluster.python, cluster.program("torchrun", "/venv/bin/torchrun")) == (
                "python3",
                "torchrun",
            )
        finally:
            assert cluster.destroy() == []
            # The user's image stays.
            client.images.remove(name)


def _libraries(program: str) -> list[str]:
    said = subprocess.check_output(["ldd", program], text=True)
    return [word for word in said.split() if word.startswith("/")]
