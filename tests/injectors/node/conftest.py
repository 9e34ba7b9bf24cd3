"""Nodes for the tests of their faults, as network namespaces with a launcher on each."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from chaos.clusters import processes
from chaos.clusters.base import Plot
from chaos.clusters.netns import NetnsCluster
from chaos.clusters.running import Running
from injectors.fault import Place
from tests.chaos.clusters import support

LAUNCHER = """
import os, signal, subprocess, sys
child = subprocess.Popen(["sleep", "60"])
def told(number, frame):
    print("told", number, flush=True)
    if sys.argv[1] == "polite":
        child.kill()
        os._exit(0)
for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, told)
print("ready", flush=True)
while True:
    signal.pause()
"""


@dataclass
class Nodes:
    """Three nodes, each with a launcher that has a child."""

    cluster: NetnsCluster
    folder: Path
    running: dict[int, Running] = field(default_factory=dict)

    def start(self, index: int, manners: str = "polite") -> None:
        log = self.log(index)
        argv = [sys.executable, "-I", "-S", "-u", "-c", LAUNCHER, manners]
        self.running[index] = support.start(self.cluster, index, log, argv)
        limit = time.monotonic() + 20
        while "ready\n" not in log.read_text():
            assert time.monotonic() < limit
            time.sleep(0.005)
        seen = processes.read(self.running[index].pid)
        assert seen is not None
        self.cluster.set_launcher(index, seen.pid, seen.start_ticks)

    def log(self, index: int) -> Path:
        return self.folder / f"{index}.log"

    def place(self, *aimed: int, fault: str = "f1") -> Place:
        return Place(nodes=tuple(self.cluster.nodes), aimed=aimed, run=self.cluster.plot.run, fault=fault)


@pytest.fixture
def nodes(require: Callable[[str], None], tmp_path: Path) -> Iterator[Nodes]:
    require("netns")
    run = f"test-{os.getpid()}-{secrets.token_hex(3)}"
    made = Nodes(NetnsCluster(Plot(run, "nodes", 3)), tmp_path)
    made.cluster.open()
    yield made
    for running in made.running.values():
        running.stop()
    assert made.cluster.destroy() == []
