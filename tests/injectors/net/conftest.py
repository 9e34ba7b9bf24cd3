"""Nodes for the tests of the network's faults, and what every fault of the family must show."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from injectors.fault import Evidence, Place
from injectors.net import scenes
from tests.injectors.net.rig import Rig

SERVER = """
import socket, threading
ear = socket.create_server(("", 7000), family=socket.AF_INET6, dualstack_ipv6=True, backlog=50)
def serve(end):
    try:
        while end.recv(10): end.send(b"y")
    except OSError as error: print("server", error.errno, flush=True)
print("ready", flush=True)
while True: threading.Thread(target=serve, args=(ear.accept()[0],), daemon=True).start()
"""
CLIENT = """
import socket, time
end = socket.create_connection(("10.77.0.1", 7000))
print("ready", flush=True)
try:
    while True:
        began, trips = time.monotonic(), []
        for _ in range(10):
            start = time.monotonic()
            end.send(b"x"); end.recv(1)
            trips.append(time.monotonic() - start)
            time.sleep(0.01)
        print("alive", began, min(trips), flush=True)
except OSError as error: print("client", error.errno, flush=True)
"""


@pytest.fixture(scope="module")
def cluster(require: Callable[[str], None]) -> Iterator[Rig]:
    """Three nodes, shared by the tests of a file: each must leave them as it found them."""
    require("nft")
    require("netns")
    made = Rig(3)
    yield made
    made.close()


@pytest.fixture
def own_cluster(require: Callable[[str], None]) -> Iterator[Rig]:
    """Three nodes for one test, which may break them."""
    require("nft")
    require("netns")
    made = Rig(3)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def no_scene_left() -> Iterator[None]:
    """No fault may keep a process once it has been undone."""
    yield
    left = list(scenes._open)
    for key in left:
        scenes.end(*key)
    # What never fired keeps its reason, and no process.
    assert not [key for key in left if key[1] != "f1"]


class Traffic:
    """A job's connections: node 1 and node 2 each talk to node 0."""

    def __init__(self, cluster: Rig) -> None:
        self.server = cluster.start(0, sys.executable, "-I", "-S", "-c", SERVER)
        assert self.server.stdout is not None
        assert self.server.stdout.readline() == "ready\n"
        self.clients = [cluster.start(n, sys.executable, "-I", "-S", "-c", CLIENT) for n in (1, 2)]
        for client in self.clients:
            assert client.stdout is not None
            assert client.stdout.readline() == "ready\n"

    def end_of(self, client: int) -> str:
        """The last line of a client that has ended."""
        assert self.clients[client].wait(20) == 0
        stdout = self.clients[client].stdout
        assert stdout is not None
        return stdout.read().splitlines()[-1]

    def alive(self, client: int) -> float:
        """Wait for ten answers to questions asked from now on; returns the quickest round, seconds."""
        now, stdout = time.monotonic(), self.clients[client].stdout
        assert stdout is not None
        while True:
            word, began, trip = stdout.readline().split()
            assert word == "alive"
            if float(began) >= now:
                return float(trip)

    def close(self) -> None:
        for process in (self.server, *self.clients):
            process.kill()
            process.communicate()


@pytest.fixture
def traffic(cluster: Rig) -> Iterator[Traffic]:
    made = Traffic(cluster)
    yield made
    made.close()


Cycle = Callable[..., dict[str, Evidence]]


@pytest.fixture
def cycle(cluster: Rig) -> Cycle:
    """Take a fault through everything that the engine does with it, and check that nothing is left."""

    def run(fault: Any, place: Place, proven: bool = True) -> dict[str, Evidence]:
        before = cluster.state()
        record = fault.undo_record(place)
        assert record is not None
        json.dumps(record.as_dict())
        assert cluster.state() == before, "looking changed something"
        fired = fault.inject(place, None)
        assert fired.proven, fired
        seen = fault.verify(place, fired)
        assert seen.proven is proven, seen
        undone = [fault.undo(record) for _ in range(2)]
        assert all(said.proven for said in undone), undone
        assert cluster.state() == before
        healed = fault.verify_undone(record)
        assert healed.proven, healed
        json.dumps([said.as_dict() for said in (fired, seen, *undone, healed)])
        return {"fired": fired, "verified": seen, "undone": undone[0], "healed": healed}

    return run
