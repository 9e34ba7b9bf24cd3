from __future__ import annotations

import time

import pytest

from injectors.net import space
from injectors.net.probe import Probe
from tests.injectors.net.rig import Rig

pytestmark = pytest.mark.slow
WAYS = [(a, b) for a in range(3) for b in range(3) if a != b]
LISTEN = "0A"


def connections(cluster: Rig) -> list[str]:
    """What the nodes' kernels still know of connections, and in which state."""
    rows = [
        line.split()
        for index in range(3)
        for line in cluster.inside(index, "cat", "/proc/net/tcp").splitlines()
    ]
    return [f"{row[1]} {row[2]} {row[3]}" for row in rows if row[0] != "sl" and row[3] != LISTEN]


def test_a_look_leaves_no_connection_that_would_count_as_the_jobs(cluster: Rig) -> None:
    probe = Probe([space.of(node) for node in cluster.nodes], "look", "test")
    try:
        assert {seen["tcp"] for seen in probe.reach(WAYS).values()} == {"ok"}
        # A farewell would stay half closed until the other end is closed too, at the next look.
        until = time.monotonic() + 5.0
        while (left := connections(cluster)) and time.monotonic() < until:
            pass
        assert left == []
    finally:
        probe.close()
