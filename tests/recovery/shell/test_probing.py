"""Probes between nodes: who answers, who does not, and that someone is always answered."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from recovery.shell.probing import GIVE_UP_S, Address, Prober
from recovery.shell.reactor import Reactor

SECRET = b"a secret of the job, long enough"


@pytest.fixture
def reactor() -> Reactor:
    return Reactor()


@pytest.fixture
def probers(reactor: Reactor) -> Iterator[list[Prober]]:
    made = [Prober(reactor, SECRET, "127.0.0.1") for _ in range(3)]
    yield made
    for prober in made:
        prober.close()


def reached(reactor: Reactor, prober: Prober, peers: dict[int, Address]) -> frozenset[int]:
    answers: list[frozenset[int]] = []
    prober.ask(peers, answers.append)
    limit = time.monotonic() + 20 * GIVE_UP_S
    while not answers and time.monotonic() < limit:
        reactor.turn(0.05)
        prober.tick()
    (answer,) = answers
    return answer


def test_those_who_answer_are_reached(reactor: Reactor, probers: list[Prober]) -> None:
    peers = {1: probers[1].address, 2: probers[2].address}
    assert reached(reactor, probers[0], peers) == {1, 2}


def test_nobody_to_reach_is_an_answer(reactor: Reactor, probers: list[Prober]) -> None:
    assert reached(reactor, probers[0], {}) == frozenset()


def test_who_refuses_or_is_silent_or_knows_no_secret_is_not_reached(
    reactor: Reactor, probers: list[Prober]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        stranger = Prober(reactor, b"another secret, also long enough", "127.0.0.1")
        closed = Prober(reactor, SECRET, "127.0.0.1")
        closed.close()
        peers = {1: probers[1].address, 2: silent.getsockname(), 3: stranger.address, 4: closed.address}
        assert reached(reactor, probers[0], peers) == {1}
        stranger.close()


def test_a_visitor_that_says_nothing_is_sent_away(reactor: Reactor, probers: list[Prober]) -> None:
    with socket.create_connection(probers[0].address) as visitor:
        visitor.settimeout(20 * GIVE_UP_S)
        limit = time.monotonic() + 20 * GIVE_UP_S
        visitor.setblocking(False)
        while time.monotonic() < limit:
            reactor.turn(0.05)
            probers[0].tick()
            try:
                assert visitor.recv(1) == b""
                return
            except BlockingIOError:
                continue
        pytest.fail("it was never sent away")
