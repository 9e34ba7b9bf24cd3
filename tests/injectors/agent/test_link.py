"""The agent's line: its waits end in time whatever else the process does."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from injectors.agent.link import Link


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / "engine"))
        listener.listen()
        yield listener


@pytest.fixture
def interrupted() -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    yield
    signal.signal(signal.SIGUSR1, before)


def pester(thread: threading.Thread, times: int) -> None:
    """Interrupt whatever a thread waits in, again and again while it is there."""
    for _ in range(times):
        if not thread.is_alive():
            return
        assert thread.ident is not None
        signal.pthread_kill(thread.ident, signal.SIGUSR1)
        time.sleep(0.01)  # the interval is what is tested: much shorter than the wait


def test_a_wait_is_over_in_time_though_signals_come_all_the_time(
    engine: socket.socket, interrupted: None
) -> None:
    link = Link(str(engine.getsockname()))
    ends: list[str] = []
    thread = threading.Thread(target=lambda: ends.append(link.wait_undo("f1", 0.5)))
    thread.start()
    # As of children that end: a process which starts many is interrupted as often.
    pester(thread, 2000)
    thread.join(1.0)
    assert ends == ["elapsed"]
    link.close()


def test_an_interrupted_rank_goes_on_waiting_for_its_answer(engine: socket.socket, interrupted: None) -> None:
    link = Link(str(engine.getsockname()))
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(link.reach("f1", {"rank": 0})))
    thread.start()
    with engine.accept()[0] as peer:
        asked = json.loads(peer.recv(65536))
        assert (asked["op"], asked["fault"]) == ("reached", "f1")
        pester(thread, 20)
        assert thread.is_alive()
        peer.send(json.dumps({"op": "go", "fault": "f1"}).encode())
        thread.join(10.0)
    assert answers == ["go"]
    link.close()


def test_a_tool_that_is_gone_lets_the_rank_go(engine: socket.socket) -> None:
    link = Link(str(engine.getsockname()))
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(link.reach("f1", {})))
    thread.start()
    engine.accept()[0].close()
    thread.join(10.0)
    assert answers == ["gone"]
