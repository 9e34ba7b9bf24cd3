"""Real TCPStores, each in a process of its own that is forked from one that has imported torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from injectors import signals
from injectors.fault import Victim
from injectors.marks import MARKER, environment

JOBS = Path(__file__).parent.parent / "jobs"
RUN = "test-of-the-store"


class Hosts:
    """Makes stores."""

    def __init__(self, *before: str) -> None:
        self._process = subprocess.Popen(
            [*before, sys.executable, str(JOBS / "store_hosts.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, MARKER: RUN, "OMP_NUM_THREADS": "1"},
        )
        self._made: list[tuple[int, int]] = []
        self._answer()

    def make(self, **order: Any) -> tuple[int, int]:
        """A new store; pid and port."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        ticks = signals.start_ticks(answer["pid"])
        assert ticks is not None
        self._made.append((answer["pid"], ticks))
        return answer["pid"], answer["port"]

    def clear(self) -> None:
        """End what was made."""
        for pid, ticks in self._made:
            signals.send(pid, ticks, 9)
            assert signals.wait_gone(pid, ticks, 5.0)
        self._made.clear()

    def close(self) -> None:
        self.clear()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        return dict(json.loads(self._process.stdout.readline()))


@pytest.fixture(scope="session")
def all_hosts() -> Iterator[Hosts]:
    made = Hosts()
    yield made
    made.close()


@pytest.fixture
def far_hosts(require: Callable[[str], None]) -> Iterator[Hosts]:
    """Makes stores in a user and a network namespace of their own, which nothing outside can reach."""
    require("userns")
    up = 'ip link set lo up && exec "$@"'
    made = Hosts("unshare", "--user", "--map-root-user", "--net", "sh", "-c", up, "sh")
    yield made
    made.close()


@pytest.fixture
def hosts(all_hosts: Hosts) -> Iterator[Hosts]:
    yield all_hosts
    all_hosts.clear()


Rank = Callable[..., Victim]


@pytest.fixture
def rank() -> Iterator[Rank]:
    """Makes processes that have the environment of a rank and do nothing."""
    started: list[subprocess.Popen[bytes]] = []

    def make(port: int | None, run: str = RUN, **env: str) -> Victim:
        address = {} if port is None else {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
        marker = {MARKER: run} if run else {}
        path = {"PATH": os.environ["PATH"]}
        process = subprocess.Popen(["sleep", "60"], env={**path, **marker, **address, **env})
        started.append(process)
        # The kernel shows an environment a moment after the new program was let in.
        limit = time.monotonic() + 5.0
        while not environment(process.pid) and time.monotonic() < limit:
            time.sleep(0.001)
        ticks = signals.start_ticks(process.pid)
        assert ticks is not None
        return Victim(pid=process.pid, start_ticks=ticks, rank=1, generation=1, fault="f1")

    yield make
    for process in started:
        process.kill()
        process.wait()
