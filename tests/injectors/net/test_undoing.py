"""The tool is killed; another process, with nothing but the record, brings everything back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from injectors import undo
from injectors.fault import FaultError, Node, Place
from injectors.net import abilities, space, tags, undoing
from injectors.net.bandwidth import NetBandwidth
from injectors.net.delay import NetDelay
from injectors.net.link_down import NetLinkDown
from injectors.net.partition import NetPartition
from tests.injectors.net.rig import Rig

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]
CASES: list[tuple[str, dict[str, Any]]] = [
    ("net.partition", {}),
    ("net.partition", {"mechanism": "packet relay"}),
    ("net.drop_one_way", {}),
    ("net.delay", {}),
    ("net.loss", {}),
    ("net.bandwidth", {}),
    ("net.bandwidth", {"mechanism": "nft"}),
    ("net.link_down", {}),
    ("net.half_open", {}),
    ("net.reset", {"mechanism": "nft"}),
]
# As the reaper does it: without site-packages, and with nothing of the tool but the record.
REAPER = """
import json, sys
sys.path.insert(0, sys.argv[1])
from injectors import undo
print(json.dumps(undo.carry_out(json.loads(open(sys.argv[2]).read()))))
"""
# Names as near to ours as can be.
FOREIGN = """
table inet torch_chaos_test_f10 {
  comment "torch-chaos run test fault f10"
  counter hits { packets 3 bytes 4 }
}
table ip torch_chaos_test_f1 {
  counter hits { packets 5 bytes 6 }
}
table inet torch_chaos {
  set addresses {
    type ipv4_addr
    elements = { 10.1.1.1 }
  }
}
"""


@pytest.fixture
def strangers(cluster: Rig) -> Iterator[None]:
    """Foreign tables in every node."""
    for index in range(3):
        cluster.inside(index, "nft", "-f", "-", stdin=FOREIGN)
    yield
    for index in range(3):
        cluster.inside(index, "nft", "flush", "ruleset")


def kill_in_the_middle(cluster: Rig, journal: Path, fault: str, params: dict[str, Any]) -> None:
    wanted = {
        "id": fault,
        "params": params,
        "nodes": [asdict(node) for node in cluster.nodes],
        "aimed": [1],
        "run": "test",
        "fault": "f1",
        "journal": str(journal),
    }
    tool = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("doomed.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(ROOT), "PATH": space.search_path()},
    )
    assert tool.stdin is not None
    assert tool.stdout is not None
    tool.stdin.write(json.dumps(wanted) + "\n")
    tool.stdin.flush()
    assert tool.stdout.readline() == "at work\n"
    tool.kill()
    tool.communicate()


def reap(journal: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", REAPER, str(ROOT), str(journal)],
        capture_output=True,
        text=True,
        check=True,
        env={},
    )
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("fault", "params"), CASES, ids=lambda v: v if isinstance(v, str) else "-".join(v.values())
)
def test_a_killed_tool_leaves_nothing(
    cluster: Rig, traffic: Any, strangers: None, tmp_path: Path, fault: str, params: dict[str, Any]
) -> None:
    before = cluster.state()
    kill_in_the_middle(cluster, tmp_path / "record", fault, params)
    for _ in range(2):
        back = reap(tmp_path / "record")
        assert back["done"], back
    assert cluster.state() == before
    assert helpers_of("torch_chaos_test_f1") == []


def test_a_link_that_goes_between_the_look_and_the_act_is_gone(
    cluster: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay ends with the killed tool; the kernel takes its link down when it comes to it."""
    looks: list[dict[str, str] | None] = [{"ifalias": "ours"}, None]
    monkeypatch.setattr(undoing.links, "show", lambda *_: looks.pop(0))
    data = {"link": "not_there", "remark": "ours", "tag": "none", "nodes": [space.of(cluster.nodes[0])]}
    done, said = undoing._relay({"data": data})
    assert done, said
    assert "its link went by itself" in said
    # One that is still there could not be deleted.
    looks += [{"ifalias": "ours"}, {"ifalias": "ours"}]
    done, said = undoing._relay({"data": data})
    assert not done, said


def helpers_of(tag: str) -> list[str]:
    """Helper processes with a tag that are still there after a while."""
    deadline = time.monotonic() + 10
    while True:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:
                continue
            if tag.encode() in words:
                found.append(str(path))
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.02)


def test_a_record_whose_fault_never_came_is_undone_too(cluster: Rig) -> None:
    before = cluster.state()
    for fault in (NetPartition(), NetBandwidth(), NetLinkDown(), NetDelay()):
        place = cluster.place(1)
        record = fault.undo_record(place)
        assert record is not None
        assert undo.carry_out(record.as_dict())["done"]
        assert fault.verify_undone(record).proven
    assert cluster.state() == before


@pytest.mark.parametrize(
    "fault", [NetPartition(), NetBandwidth(), NetDelay(), NetLinkDown()], ids=lambda f: f.id
)
def test_nodes_that_are_gone_are_said_to_be_gone(own_cluster: Rig, fault: Any) -> None:
    place = own_cluster.place(1)
    record = fault.undo_record(place)
    assert record is not None
    assert fault.inject(place, None).proven
    own_cluster.kill(1)
    result = fault.undo(record)
    assert result.proven, result
    assert "node1: its network namespace is gone, and all that was in it" in result.what
    # The two that are left reach each other.
    seen = fault.verify_undone(record)
    assert seen.proven, seen
    own_cluster.kill(0)
    own_cluster.kill(2)
    assert fault.undo(record).proven
    seen = fault.verify_undone(record)
    assert seen.proven
    assert "the nodes are gone" in seen.what


def test_a_namespace_outlives_the_process_that_stood_for_it(own_cluster: Rig) -> None:
    """The node's holder is dead, a process of the job keeps the namespace: the rules in it are found."""
    keeper = own_cluster.start(1, "sh", "-c", "echo ready; read end")
    assert keeper.stdout is not None
    assert keeper.stdout.readline() == "ready\n"
    fault, place = NetPartition(), own_cluster.place(1)
    record = fault.undo_record(place)
    assert record is not None
    assert fault.inject(place, None).proven
    own_cluster.kill(1)
    result = fault.undo(record)
    assert result.proven
    assert "node1: its table is deleted" in result.what
    assert fault.verify_undone(record).proven
    keeper.communicate("end\n")


def test_an_injection_that_fails_halfway_takes_its_part_back(own_cluster: Rig) -> None:
    fault, place = NetPartition(), own_cluster.place(1)
    assert fault.undo_record(place) is not None
    own_cluster.kill(2)
    fired = fault.inject(place, None)
    assert not fired.proven
    assert fired.what == "net.partition by nft failed: node2 is gone"
    assert [own_cluster.inside(index, "nft", "list", "ruleset") for index in (0, 1)] == ["", ""]


class TestWhatIsForeign:
    """Something is in the way: the fault is refused, and what was there stays, byte for byte."""

    def test_a_table_of_the_same_name(self, own_cluster: Rig) -> None:
        table = tags.name("test", "f1")
        own_cluster.inside(0, "nft", "add", "table", "inet", table)
        before = own_cluster.state()
        with pytest.raises(FaultError, match=f"node0: nft table inet {table} is not of this fault"):
            NetPartition().undo_record(own_cluster.place(1))
        assert own_cluster.state() == before

    def test_a_table_that_came_later_survives_the_undo(self, own_cluster: Rig) -> None:
        fault = NetPartition()
        record = fault.undo_record(own_cluster.place(1))
        assert record is not None
        table = tags.name("test", "f1")
        own_cluster.inside(0, "nft", "add", "table", "inet", table)
        before = own_cluster.state()
        # It is not made over what is there either.
        assert not fault.inject(own_cluster.place(1), None).proven
        result = fault.undo(record)
        assert result.proven
        assert f"table {table} is not of this fault and is left alone" in result.what
        assert own_cluster.state() == before

    def test_the_same_fault_twice(self, own_cluster: Rig) -> None:
        fault, place = NetPartition(), own_cluster.place(1)
        record = fault.undo_record(place)
        assert record is not None
        assert fault.inject(place, None).proven
        with pytest.raises(FaultError, match="of this fault is already there"):
            fault.undo_record(place)
        assert fault.undo(record).proven
        assert fault.verify_undone(record).proven

    def test_a_root_qdisc(self, own_cluster: Rig) -> None:
        words = ["root", "handle", "7:", "tbf", "rate", "1gbit", "burst", "1mb", "latency", "10ms"]
        own_cluster.inside(1, "tc", "qdisc", "add", "dev", "eth0", *words)
        before = own_cluster.state()
        fault = NetBandwidth(mechanism="tc tbf")
        with pytest.raises(FaultError, match="eth0 has the root qdisc tbf 7:, which stays"):
            fault.undo_record(own_cluster.place(1))
        assert own_cluster.state() == before

    def test_a_qdisc_that_came_later_survives_the_undo(self, own_cluster: Rig) -> None:
        fault = NetBandwidth(mechanism="tc tbf")
        record = fault.undo_record(own_cluster.place(1))
        assert record is not None
        words = ["root", "handle", "7:", "tbf", "rate", "1gbit", "burst", "1mb", "latency", "10ms"]
        own_cluster.inside(1, "tc", "qdisc", "add", "dev", "eth0", *words)
        before = own_cluster.state()
        assert "not this fault's" in fault.undo(record).what
        assert own_cluster.state() == before
        fault.verify_undone(record)

    def test_a_route_to_a_node(self, own_cluster: Rig) -> None:
        own_cluster.inside(1, "ip", "route", "add", "10.77.0.1/32", "dev", "eth0")
        before = own_cluster.state()
        with pytest.raises(FaultError, match="there is a route already, which is left alone: 10"):
            NetDelay(mechanism="packet relay").undo_record(own_cluster.place(1))
        assert own_cluster.state() == before

    def test_a_link_of_the_same_name(self, own_cluster: Rig) -> None:
        link = tags.link("test", "f1")
        own_cluster.inside(1, "ip", "link", "add", link, "type", "bridge")
        before = own_cluster.state()
        with pytest.raises(FaultError, match=f"there is a link {link} already"):
            NetDelay(mechanism="packet relay").undo_record(own_cluster.place(1))
        assert own_cluster.state() == before

    def test_an_alias_that_would_be_lost(self, own_cluster: Rig) -> None:
        own_cluster.inside(1, "ip", "link", "set", "dev", "eth0", "alias", "uplink")
        with pytest.raises(FaultError, match="eth0 has the alias 'uplink', which stays"):
            NetLinkDown(mechanism="ip link").undo_record(own_cluster.place(1))

    def test_a_link_that_is_down_already(self, own_cluster: Rig) -> None:
        own_cluster.inside(1, "ip", "link", "set", "dev", "eth0", "down")
        with pytest.raises(FaultError, match="eth0 is missing or down already"):
            NetLinkDown(mechanism="ip link").undo_record(own_cluster.place(1))


def test_nodes_without_a_network_of_their_own_are_refused() -> None:
    nodes = tuple(Node(index=i, name=f"node{i}", kind="local", address="127.0.0.1") for i in range(2))
    with pytest.raises(
        FaultError, match=r"node0 shares the network of this machine\n  mend: .* netns or docker"
    ):
        NetPartition().undo_record(Place(nodes=nodes, aimed=(1,), run="test", fault="f1"))


def test_the_tools_own_network_is_left_alone() -> None:
    nodes = tuple(
        Node(index=i, name=f"node{i}", kind="netns", address="127.0.0.1", pid=os.getpid()) for i in range(2)
    )
    with pytest.raises(FaultError, match="node0 lives in the network of this tool, which is left alone"):
        NetPartition().undo_record(Place(nodes=nodes, aimed=(1,), run="test", fault="f1"))


def test_no_mechanism_says_why(cluster: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        abilities, "_installed", lambda command, package: f"no {command}\n  mend: apt install {package}"
    )
    for probe in (abilities.nft_missing, abilities.relay_missing):
        probe.cache_clear()
    try:
        with pytest.raises(FaultError) as error:
            NetPartition().undo_record(cluster.place(1))
    finally:
        for probe in (abilities.nft_missing, abilities.relay_missing):
            probe.cache_clear()
    assert str(error.value).splitlines()[:3] == [
        "net.partition: no mechanism works here",
        "  nft: no nft",
        "  mend: apt install nftables",
    ]
    assert "docker network: the nodes are no containers" in str(error.value)
