"""The coordinator's end of all nodes: who they are, what they say, and what they are told.

It decides nothing about the job. It makes sure that a message counts once, comes from who it says, and
belongs to that node's present session.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from recovery.core.door import Admitted, Door, Hello, Refused
from recovery.core.nodes import Node
from recovery.shell.line import Conversation, Line, LineBroken
from recovery.shell.probing import Address, Prober
from recovery.shell.reactor import Reactor

GREETING_S = 5.0
"""Who has connected must have proved itself and said who it is by then."""
FAREWELL_S = 2.0
"""How long the end of the job waits for nodes to have heard of it."""
MAX_STRANGERS = 128


@dataclass
class Guest:
    """One node, as long as its session lasts."""

    index: int
    session: int
    probe_address: Address
    talk: Conversation = field(default_factory=Conversation)
    sampled_at: float = 0.0
    """When the progress of its ranks was last heard."""


class Hub:
    """Listens for nodes. `hear` is told (node, session, message), `joined` (node, session)."""

    def __init__(
        self,
        reactor: Reactor,
        address: Address,
        secret: bytes,
        facts: Mapping[str, Any],
        *,
        welcome: Mapping[str, Any],
        node: Callable[[int], Node],
        joined: Callable[[int, int], None],
        hear: Callable[[int, int, dict[str, Any]], None],
    ) -> None:
        self._reactor, self._secret, self._facts = reactor, secret, facts
        self._welcome, self._node, self._joined, self._hear = welcome, node, joined, hear
        self._door = Door(os.urandom(8).hex())
        self._listener = socket.create_server(address, backlog=64)
        self._listener.setblocking(False)
        self.address: Address = self._listener.getsockname()[:2]
        self.prober = Prober(reactor, secret, self.address[0])
        self._strangers: dict[Line, float] = {}
        self._guests: dict[int, Guest] = {}
        reactor.watch(self._listener.fileno(), self._accept)

    # ------------------------------------------------------------------ who is there

    def guest(self, node: int) -> Guest | None:
        return self._guests.get(node)

    def probe_addresses(self) -> dict[int, Address]:
        found = {index: guest.probe_address for index, guest in self._guests.items()}
        return {0: self.prober.address, **found}

    def say(self, node: int, **message: Any) -> None:
        """Tell a node something; kept for it while its connection is broken, dropped with its session."""
        guest = self._guests.get(node)
        if guest is None:
            return
        line = guest.talk.line
        try:
            guest.talk.send(**message)
        except LineBroken:
            self._lost(guest, line)
            return
        if line is not None:
            self._watch(line, lambda: self._read(guest, line))

    def forget(self, node: int) -> None:
        """Its session is over: whatever still comes of it no longer counts."""
        guest = self._guests.pop(node, None)
        if guest is not None:
            self._lost(guest, guest.talk.line)

    def tick(self) -> None:
        self.prober.tick()
        now = time.monotonic()
        for line, since in list(self._strangers.items()):
            if now - since > GREETING_S:
                self._dismiss(line)

    def close(self, **last: Any) -> None:
        """Say a last thing to every node and wait, for a while, until each has heard it and hung up."""
        for index in list(self._guests):
            self.say(index, **last)
        deadline = time.monotonic() + FAREWELL_S
        while time.monotonic() < deadline and any(g.talk.line for g in self._guests.values()):
            self._reactor.turn(0.05)
        for guest in self._guests.values():
            self._lost(guest, guest.talk.line)
        for line in list(self._strangers):
            self._dismiss(line)
        self.prober.close()
        self._reactor.drop(self._listener.fileno())
        self._listener.close()

    # ------------------------------------------------------------------ greetings

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return  # gone again
        if len(self._strangers) >= MAX_STRANGERS:
            sock.close()
            return
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line = Line(sock, self._secret, coordinator=True)
        self._strangers[line] = time.monotonic()
        self._watch(line, lambda: self._greet(line))

    def _watch(self, line: Line, callback: Callable[[], None]) -> None:
        self._reactor.watch(line.fileno(), callback, writing=line.wants_to_write)

    def _dismiss(self, line: Line) -> None:
        self._strangers.pop(line, None)
        self._reactor.drop(line.fileno())
        line.close()

    def _greet(self, line: Line) -> None:
        try:
            line.flush()
            messages = line.receive()
            if not messages:
                self._watch(line, lambda: self._greet(line))
                return
            self._hello(line, messages[0]["hello"])
        except LineBroken as error:
            print(f"recovery: a connection was refused: {error}", file=sys.stderr, flush=True)
            self._dismiss(line)
        except (KeyError, TypeError, ValueError) as error:
            print(f"recovery: a greeting that makes no sense: {error!r}", file=sys.stderr, flush=True)
            self._dismiss(line)

    def _hello(self, line: Line, hello: dict[str, Any]) -> None:
        index = int(hello["node"])
        refusal = self._refusal(index, hello)
        if refusal is None:
            greeting = Hello(index, str(hello["job"]), int(hello["resumes"]), int(hello["former"]))
            answer = self._door.knock(greeting, self._node(index), time.monotonic())
            if isinstance(answer, Admitted):
                self._admit(line, index, answer, hello)
                return
            refusal = answer.reason
            final = isinstance(answer, Refused)
        else:
            final = True
        line.send(refused=refusal, final=final)
        self._dismiss(line)

    def _admit(self, line: Line, index: int, answer: Admitted, hello: dict[str, Any]) -> None:
        if not answer.resumed:
            self.forget(index)
            host, port = hello["probe"]
            self._guests[index] = Guest(index, answer.session, (str(host), int(port)))
        guest = self._guests[index]
        self._lost(guest, guest.talk.line)
        del self._strangers[line]
        line.send(
            welcome=dict(self._welcome),
            session=guest.session,
            received=guest.talk.received,
            job=self._door.job,
        )
        try:
            guest.talk.attach(line, int(hello["received"]))
        except LineBroken:
            self._lost(guest, line)
            return
        self._watch(line, lambda: self._read(guest, line))
        if not answer.resumed:
            self._joined(index, guest.session)

    def _refusal(self, index: int, hello: dict[str, Any]) -> str | None:
        """Why this node can never take part."""
        for name, value in self._facts.items():
            if hello["facts"].get(name) != value:
                theirs = hello["facts"].get(name)
                return f"it was started with {name} = {theirs!r}, the coordinator with {value!r}"
        if not 1 <= index < int(self._facts["nnodes"]):
            return f"node rank {index} is not one of 1 to {int(self._facts['nnodes']) - 1}"
        return None

    # ------------------------------------------------------------------ listening

    def _read(self, guest: Guest, line: Line) -> None:
        if guest.talk.line is not line:
            return
        try:
            line.flush()
            frames = line.receive()
            messages = [message for frame in frames if (message := guest.talk.take(frame)) is not None]
        except LineBroken:
            self._lost(guest, line)
            return
        self._watch(line, lambda: self._read(guest, line))
        for message in messages:
            if self._guests.get(guest.index) is not guest:
                return  # its session has ended with one of the messages
            try:
                self._hear(guest.index, guest.session, message)
            except (KeyError, TypeError, ValueError) as error:
                # It knows the secret and makes no sense: without a line its lease will run out.
                print(f"recovery: node {guest.index}: {error!r}", file=sys.stderr, flush=True)
                self._lost(guest, line)
                return

    def _lost(self, guest: Guest, line: Line | None) -> None:
        """The connection has ended; the session lasts until its lease is over."""
        if line is None or guest.talk.line is not line:
            return
        guest.talk.line = None
        self._reactor.drop(line.fileno())
        line.close()
