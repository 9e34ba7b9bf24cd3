"""The coordinator's side of rendezvous: keys and values of one generation, forgotten with it."""

from __future__ import annotations

import base64
import json
from typing import Any, Protocol

from recovery.shell.linux import Ends
from recovery.shell.rendezvous_address import LISTENS, loopback_address


class Asker(Protocol):
    """Who asked: a worker's channel, here or on another node."""

    def send(self, **message: Any) -> None: ...


class StoreServer:
    """Answers `RpcStore`. A request of another generation than the open one is told that it is stale."""

    def __init__(self) -> None:
        self.generation = 0
        self._values: dict[str, str] = {}
        self._waiting: list[tuple[Asker, dict[str, Any]]] = []
        self._ends: tuple[int, set[tuple[str, int]]] = (0, set())

    def open(self, generation: int) -> None:
        """Start an empty namespace; whoever still waits in an older one is sent away."""
        self.generation = generation
        if generation:
            self._ends = (generation, set())
        self._values.clear()
        waiting, self._waiting = self._waiting, []
        for channel, _ in waiting:
            _answer(channel, stale=True)

    def forget(self, channel: Asker) -> None:
        """The process behind this channel is gone."""
        self._waiting = [(c, request) for c, request in self._waiting if c is not channel]

    def handle(self, channel: Asker, request: dict[str, Any]) -> None:
        """Answer now, or when the key that is asked for has come.

        Raises:
            ValueError: the request is not one of the store's.
        """
        if request.get("generation") != self.generation:
            _answer(channel, stale=True)
            return
        match request.get("op"):
            case "set":
                self._values[str(request["key"])] = str(request["value"])
                self._note_listener(str(request["key"]), str(request["value"]))
                _answer(channel)
                self._wake()
            case "add":
                key = str(request["key"])
                value = int(self._values.get(key, "0")) + int(request["amount"])
                self._values[key] = str(value)
                _answer(channel, value=value)
                self._wake()
            case "check":
                _answer(channel, value=all(key in self._values for key in request["keys"]))
            case "get" | "wait":
                if not self._try(channel, request):
                    self._waiting.append((channel, request))
            case other:
                raise ValueError(f"unknown store operation {other!r}")

    def close(self) -> None:
        """Send away whoever still waits; `ends` is kept."""
        if self.generation:
            self.open(0)

    def ends(self, generation: int) -> Ends:
        """Where the sockets of a generation end, as far as its members have said; also after it is closed."""
        newest, ports = self._ends
        return Ends(loopback_address(generation), frozenset(ports if newest == generation else ()))

    def _note_listener(self, key: str, value: str) -> None:
        if LISTENS in key:
            host, port = json.loads(base64.b64decode(value))
            self._ends[1].add((str(host), int(port)))

    def _wake(self) -> None:
        self._waiting = [(c, request) for c, request in self._waiting if not self._try(c, request)]

    def _try(self, channel: Asker, request: dict[str, Any]) -> bool:
        if request["op"] == "get":
            value = self._values.get(str(request["key"]))
            if value is None:
                return False
            _answer(channel, value=value)
            return True
        if all(key in self._values for key in request["keys"]):
            _answer(channel)
            return True
        return False


def _answer(channel: Asker, **fields: Any) -> None:
    try:
        channel.send(**fields)
    except OSError:
        pass  # it died while it waited; its exit is reported elsewhere
