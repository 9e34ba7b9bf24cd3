"""Small clusters of network namespaces for the tests of the network's faults: a bridge and some nodes.

Made with `unshare`, `ip` and `nsenter` alone, so that it checks the product's own cluster from outside. It
ends with its first process: the kernel takes down what no process lives in.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from injectors import signals
from injectors.fault import Node, Place

_NODES = """
set -e
ip link set lo up
ip link add hub type bridge
ip link set hub up
own=$(readlink /proc/self/ns/net)
for i in $(seq 1 $1); do
  unshare --net sleep infinity &
  pid=$!
  while [ "$(readlink /proc/$pid/ns/net)" = "$own" ]; do sleep 0.01; done
  ip link add port$i type veth peer name eth0 netns $pid
  ip link set port$i master hub up
  nsenter --target $pid --net sh -ec "
    ip link set lo up; ip address add 10.77.0.$i/24 dev eth0; ip link set eth0 up
    ip route add 10.99.0.0/16 via 10.77.0.250"
  echo "$pid"
done
echo ready
read end
"""


class Rig:
    """`count` nodes, index 0 first, with the addresses 10.77.0.1 and up."""

    def __init__(self, count: int) -> None:
        enter = ["unshare", "--net"]
        if os.geteuid() != 0:
            enter = ["unshare", "--user", "--map-root-user", "--net"]
        env = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
        self._process = subprocess.Popen(
            [*enter, "sh", "-c", _NODES, "rig", str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        assert self._process.stdout is not None
        lines = iter(self._process.stdout.readline, "ready\n")
        self.nodes = tuple(self._node(index, int(line)) for index, line in enumerate(lines))
        assert len(self.nodes) == count

    def _node(self, index: int, pid: int) -> Node:
        return Node(
            index=index,
            name=f"node{index}",
            kind="netns",
            address=f"10.77.0.{index + 1}",
            interface="eth0",
            pid=pid,
            start_ticks=signals.start_ticks(pid) or 0,
        )

    def place(self, *aimed: int, fault: str = "f1", run: str = "test") -> Place:
        return Place(nodes=self.nodes, aimed=aimed, run=run, fault=fault)

    def inside(self, index: int, *words: str, stdin: str = "") -> str:
        """Run a command in a node and return its output."""
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        done = subprocess.run(
            ["nsenter", "--target", str(self.nodes[index].pid), *user, "--net", *words],
            input=stdin,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"},
        )
        return done.stdout

    def start(self, index: int, *words: str) -> subprocess.Popen[str]:
        """Start a process in a node."""
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return subprocess.Popen(
            ["nsenter", "--target", str(self.nodes[index].pid), *user, "--net", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def state(self) -> list[dict[str, Any]]:
        """What a fault may change in a node: tables, qdiscs, links, routes, neighbours that were set."""
        found = []
        for index in range(len(self.nodes)):
            links = json.loads(self.inside(index, "ip", "-j", "link"))
            found.append(
                {
                    "nft": self.inside(index, "nft", "list", "ruleset"),
                    "qdisc": self.inside(index, "tc", "qdisc", "show"),
                    "links": [{k: v for k, v in link.items() if k != "ifindex"} for link in links],
                    "routes": sorted(self.inside(index, "ip", "route").splitlines()),
                }
            )
        return found

    def kill(self, index: int) -> None:
        """End a node, as a machine that loses power."""
        signals.send(self.nodes[index].pid, self.nodes[index].start_ticks, 9)
        assert signals.wait_gone(self.nodes[index].pid, self.nodes[index].start_ticks, 10.0)

    def close(self) -> None:
        for node in self.nodes:
            signals.send(node.pid, node.start_ticks, 9)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()
