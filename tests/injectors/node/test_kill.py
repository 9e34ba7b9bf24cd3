"""`node.kill`: nothing of the node is left, everything of the others is; aimed at nothing it says so."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from injectors import signals
from injectors.cluster import undoing
from injectors.fault import Evidence, FaultError, Node, Place
from injectors.node import NodeKill
from tests.chaos.clusters import support
from tests.injectors.node.conftest import Nodes


@pytest.mark.slow
def test_every_process_of_the_node_is_gone_and_none_of_another(nodes: Nodes) -> None:
    for index in range(3):
        nodes.start(index)
    fault, place = NodeKill(), nodes.place(1)
    networks = [undoing.sharing_network(node.pid) for node in place.nodes]
    assert all(len(there) >= 3 for there in networks)
    assert fault.undo_record(place) is None
    fired = fault.inject(place, None)
    assert fired.proven
    seen = fault.verify(place, fired)
    assert seen.proven, seen.what
    assert sorted(pid for pid, _ in seen.data["ended"][0]["processes"]) == sorted(networks[1])
    assert not any(signals.state(pid) not in ("Z", "X", None) for pid in networks[1])
    assert undoing.sharing_network(place.nodes[0].pid) == networks[0]
    assert undoing.sharing_network(place.nodes[2].pid) == networks[2]


@pytest.mark.slow
def test_peers_hear_nothing_of_it(nodes: Nodes, tmp_path: Path) -> None:
    wait = "import socket; ear = socket.create_server(('', 4711)); line = ear.accept()[0]; line.recv(1)"
    address = nodes.cluster.nodes[1].address
    call = f"""
import socket, time
while True:
    try:
        line = socket.create_connection(({address!r}, 4711), 5)
        break
    except OSError:
        time.sleep(0.01)
print("here", flush=True)
line.settimeout(1.5)
try:
    print("heard", line.recv(1), flush=True)
except OSError as error:
    print(type(error).__name__, flush=True)
"""
    python = [sys.executable, "-I", "-S", "-c"]
    there = support.start(nodes.cluster, 1, tmp_path / "1", [*python, wait])
    here = support.start(nodes.cluster, 0, tmp_path / "0", [*python, call])
    nodes.running |= {0: here, 1: there}
    limit = time.monotonic() + 20
    while "here\n" not in (tmp_path / "0").read_text():
        assert time.monotonic() < limit
        time.sleep(0.005)
    fired = NodeKill().inject(nodes.place(1), None)
    assert "without a word" in fired.what, fired.what
    assert support.wait_end(here).code == 0
    assert (tmp_path / "0").read_text() == "here\nTimeoutError\n"


@pytest.mark.slow
def test_a_node_that_is_gone_is_reported_as_such(nodes: Nodes) -> None:
    fault, place = NodeKill(), nodes.place(2)
    assert fault.inject(place, None).proven
    again = fault.inject(place, None)
    assert not again.proven
    assert "no node that is meant was there" in again.what
    assert not fault.inject(nodes.place(), None).proven
    assert not fault.verify(place, None).proven


@pytest.mark.slow
def test_a_node_that_lives_on_proves_nothing(nodes: Nodes) -> None:
    place = nodes.place(0)
    fired = NodeKill().inject(nodes.place(1), None)
    inode = undoing.sharing_network(place.nodes[0].pid)
    alive = [[pid, signals.start_ticks(pid)] for pid in inode]
    claimed = [{**fired.data["ended"][0], "processes": alive}]
    seen = NodeKill().verify(place, Evidence("claimed", True, data={"ended": claimed}))
    assert not seen.proven
    assert "still run" in seen.what


def test_a_node_of_this_host_is_refused() -> None:
    place = Place(nodes=(Node(index=0, name="node0", kind="local", address="127.0.0.1"),), aimed=(0,))
    with pytest.raises(FaultError, match="node0 is this host"):
        NodeKill().undo_record(place)
