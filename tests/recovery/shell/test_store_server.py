"""Rendezvous: one namespace a generation, and nobody waits in one that is over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from recovery.shell.channel import Channel
from recovery.shell.store_server import StoreServer


class Client:
    made: ClassVar[list[Client]] = []

    def __init__(self, server: StoreServer, generation: int) -> None:
        self.end, self.far = Channel.pair()
        self.server, self.generation = server, generation
        self.made.append(self)

    def ask(self, op: str, **arguments: Any) -> dict[str, Any] | None:
        self.server.handle(self.far, {"op": op, "generation": self.generation, **arguments})
        return self.end.try_receive()


@pytest.fixture
def server() -> Iterator[StoreServer]:
    server = StoreServer()
    server.open(4)
    yield server
    while Client.made:
        client = Client.made.pop()
        client.end.close()
        client.far.close()


def test_a_value_is_given_when_it_comes(server: StoreServer) -> None:
    one, two = Client(server, 4), Client(server, 4)
    assert one.ask("get", key="a") is None
    assert two.ask("set", key="a", value="x") == {}
    assert one.end.try_receive() == {"value": "x"}
    assert one.ask("check", keys=["a", "b"]) == {"value": False}


def test_a_wait_ends_when_all_keys_are_there(server: StoreServer) -> None:
    one, two = Client(server, 4), Client(server, 4)
    assert one.ask("wait", keys=["a", "n"]) is None
    two.ask("set", key="a", value="x")
    assert one.end.try_receive() is None
    assert two.ask("add", key="n", amount=2) == {"value": 2}
    assert one.end.try_receive() == {}


def test_a_stale_generation_is_told_so(server: StoreServer) -> None:
    assert Client(server, 3).ask("set", key="a", value="old") == {"stale": True}
    assert Client(server, 4).ask("check", keys=["a"]) == {"value": False}


def test_opening_a_generation_sends_the_waiting_away_and_forgets_keys(server: StoreServer) -> None:
    one = Client(server, 4)
    one.ask("set", key="a", value="x")
    one.ask("get", key="b")
    server.open(5)
    assert one.end.try_receive() == {"stale": True}
    assert Client(server, 5).ask("check", keys=["a"]) == {"value": False}


def test_a_dead_client_is_forgotten(server: StoreServer) -> None:
    one, two = Client(server, 4), Client(server, 4)
    one.ask("get", key="a")
    server.forget(one.far)
    two.ask("set", key="a", value="x")
    assert one.end.try_receive() is None


def test_an_unknown_operation_is_refused(server: StoreServer) -> None:
    with pytest.raises(ValueError, match="unknown store operation 'drop'"):
        Client(server, 4).ask("drop")
