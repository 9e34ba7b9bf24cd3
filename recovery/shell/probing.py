"""Whether nodes reach each other: each listens, and answers who knows the job's secret.

A TCP exchange needs both directions, so one answer proves the link both ways.
"""

from __future__ import annotations

import hmac
import os
import socket
import time
from collections.abc import Callable, Mapping

from recovery.shell.reactor import Reactor

CHALLENGE_BYTES = 16
GIVE_UP_S = 0.7
"""Shorter than the coordinator waits for the answer."""
MAX_VISITORS = 256

Address = tuple[str, int]


class Prober:
    """Answers other nodes' probes, and carries out one's own."""

    def __init__(self, reactor: Reactor, secret: bytes, host: str) -> None:
        self._reactor = reactor
        self._secret = secret
        self._listener = socket.create_server((host, 0), backlog=64)
        self._listener.setblocking(False)
        self.address: Address = self._listener.getsockname()[:2]
        self._visitors: dict[int, tuple[socket.socket, float]] = {}
        self._round: _Round | None = None
        reactor.watch(self._listener.fileno(), self._accept)

    def ask(self, peers: Mapping[int, Address], done: Callable[[frozenset[int]], None]) -> None:
        """Try to reach the peers; `done` is called once, with those reached. Ends a round under way."""
        if self._round is not None:
            self._round.close()
        self._round = _Round(self._reactor, self._secret, peers, done)

    def tick(self) -> None:
        """Give up what takes too long."""
        now = time.monotonic()
        if self._round is not None and self._round.over(now):
            self._round = None
        for fd, (_, since) in list(self._visitors.items()):
            if now - since > GIVE_UP_S:
                self._dismiss(fd)

    def close(self) -> None:
        for fd in list(self._visitors):
            self._dismiss(fd)
        if self._round is not None:
            self._round.close()
        self._reactor.drop(self._listener.fileno())
        self._listener.close()

    def _accept(self) -> None:
        try:
            visitor, _ = self._listener.accept()
        except OSError:
            return  # gone again
        if len(self._visitors) >= MAX_VISITORS:
            visitor.close()
            return
        visitor.setblocking(False)
        fd = visitor.fileno()
        self._visitors[fd] = (visitor, time.monotonic())
        self._reactor.watch(fd, lambda: self._answer(fd))

    def _answer(self, fd: int) -> None:
        visitor, _ = self._visitors[fd]
        try:
            challenge = visitor.recv(CHALLENGE_BYTES)
            if len(challenge) == CHALLENGE_BYTES:
                visitor.send(_response(self._secret, challenge))
        except BlockingIOError:
            return
        except OSError:
            pass  # the visitor has gone
        self._dismiss(fd)

    def _dismiss(self, fd: int) -> None:
        visitor, _ = self._visitors.pop(fd)
        self._reactor.drop(fd)
        visitor.close()


class _Round:
    """One probe: a connection to each peer, all at once."""

    def __init__(
        self,
        reactor: Reactor,
        secret: bytes,
        peers: Mapping[int, Address],
        done: Callable[[frozenset[int]], None],
    ) -> None:
        self._reactor, self._secret, self._done = reactor, secret, done
        self._until = time.monotonic() + GIVE_UP_S
        self._reached: set[int] = set()
        self._open: dict[int, tuple[socket.socket, bytes]] = {}
        self._ended = False
        for peer, address in peers.items():
            self._connect(peer, address)
        self._finish_if_done()

    def _connect(self, peer: int, address: Address) -> None:
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(tuple(address))
        self._open[peer] = (sock, os.urandom(CHALLENGE_BYTES))
        self._reactor.watch(sock.fileno(), lambda: self._go_on(peer), writing=True)

    def _go_on(self, peer: int) -> None:
        sock, challenge = self._open[peer]
        try:
            answer = sock.recv(CHALLENGE_BYTES)
        except BlockingIOError:
            # Connected, and nothing to read yet: the challenge has still to be sent.
            try:
                sock.send(challenge)
            except OSError:
                self._drop(peer)
                return
            self._reactor.watch(sock.fileno(), lambda: self._go_on(peer))
            return
        except OSError:
            answer = b""
        if hmac.compare_digest(answer, _response(self._secret, challenge)):
            self._reached.add(peer)
        self._drop(peer)

    def _drop(self, peer: int) -> None:
        sock, _ = self._open.pop(peer)
        self._reactor.drop(sock.fileno())
        sock.close()
        self._finish_if_done()

    def _finish_if_done(self) -> None:
        if not self._open and not self._ended:
            self._ended = True
            self._done(frozenset(self._reached))

    def over(self, now: float) -> bool:
        if now >= self._until:
            for peer in list(self._open):
                self._drop(peer)
        return self._ended

    def close(self) -> None:
        """Without an answer: another round takes its place."""
        self._ended = True
        for peer in list(self._open):
            self._drop(peer)


def _response(secret: bytes, challenge: bytes) -> bytes:
    return hmac.digest(secret, b"probe|" + challenge, "sha256")[:CHALLENGE_BYTES]
