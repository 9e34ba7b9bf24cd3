"""Between a node's supervisor and the coordinator: an authenticated TCP connection, and a conversation that
outlives it.

Both ends prove that they know the job's secret before anything is read as a message; every frame carries a
keyed digest over its number and content, so nothing can be forged, repeated or reordered on the way. Nothing
is encrypted. Content is JSON.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import socket
import struct
from collections import deque
from typing import Any

MAGIC = b"torch-chaos recovery 1\n"
NONCE_BYTES = 32
DIGEST_BYTES = 32
TAG_BYTES = 16
MAX_FRAME_BYTES = 1 << 23
MAX_UNREAD = 10_000
"""Messages kept for a peer that does not acknowledge; its lease is over long before."""
READ_BYTES = 1 << 18


class LineBroken(OSError):
    """The connection has ended, or what came over it can't be trusted."""


class Line:
    """One connection. Never blocks: `receive` when it is readable, `flush` when it can be written to."""

    def __init__(self, sock: socket.socket, secret: bytes, *, coordinator: bool) -> None:
        sock.setblocking(False)
        self.sock = sock
        self._secret = secret
        self._roles = (b"coordinator", b"node") if coordinator else (b"node", b"coordinator")
        self._nonce = os.urandom(NONCE_BYTES)
        self._out = bytearray(MAGIC + self._nonce)
        self._in = bytearray()
        self._their_nonce: bytes | None = None
        self._keys: tuple[bytes, bytes] | None = None
        self._numbers = [0, 0]
        self.open = False
        """Whether the other end has proved itself; nothing may be sent before."""

    def fileno(self) -> int:
        return self.sock.fileno()

    def close(self) -> None:
        self.sock.close()

    @property
    def wants_to_write(self) -> bool:
        return bool(self._out)

    def send(self, **message: Any) -> None:
        """Queue one message and send what can be sent now.

        Raises:
            LineBroken: the connection has ended.
        """
        assert self._keys is not None, "the other end has not proved itself yet"
        data = json.dumps(message, separators=(",", ":")).encode()
        if len(data) > MAX_FRAME_BYTES:
            raise ValueError(f"message of {len(data)} bytes is too long ({MAX_FRAME_BYTES} allowed)")
        self._out += struct.pack("!I", len(data)) + data + self._tag(0, data)
        self.flush()

    def flush(self) -> None:
        """Send what is queued, as far as the kernel takes it.

        Raises:
            LineBroken: the connection has ended.
        """
        while self._out:
            try:
                sent = self.sock.send(self._out)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                raise LineBroken(str(error)) from None
            del self._out[:sent]

    def receive(self) -> list[dict[str, Any]]:
        """The messages that have arrived whole.

        Raises:
            LineBroken: the connection has ended, or the other end does not know the secret.
        """
        try:
            data = self.sock.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError as error:
            raise LineBroken(str(error)) from None
        if not data:
            raise LineBroken("the other end has closed the connection")
        self._in += data
        if not self.open:
            self._greet()
        messages: list[dict[str, Any]] = []
        while self.open and (message := self._frame()) is not None:
            messages.append(message)
        return messages

    # ------------------------------------------------------------------ proof

    def _greet(self) -> None:
        if self._their_nonce is None:
            if bytes(self._in[: len(MAGIC)]) != MAGIC[: len(self._in)]:
                raise LineBroken("the other end speaks another protocol")
            if len(self._in) < len(MAGIC) + NONCE_BYTES:
                return
            self._their_nonce = bytes(self._in[len(MAGIC) : len(MAGIC) + NONCE_BYTES])
            del self._in[: len(MAGIC) + NONCE_BYTES]
            self._out += self._proof(self._roles[0], self._nonce + self._their_nonce)
            self.flush()
        if len(self._in) < DIGEST_BYTES:
            return
        theirs = bytes(self._in[:DIGEST_BYTES])
        del self._in[:DIGEST_BYTES]
        expected = self._proof(self._roles[1], self._their_nonce + self._nonce)
        if not hmac.compare_digest(theirs, expected):
            raise LineBroken("the other end does not know the job's secret")
        mine, other = (b"key " + role for role in self._roles)
        self._keys = (
            self._proof(mine, self._nonce + self._their_nonce),
            self._proof(other, self._their_nonce + self._nonce),
        )
        self.open = True

    def _proof(self, what: bytes, nonces: bytes) -> bytes:
        return hmac.digest(self._secret, what + b"|" + nonces, "sha256")

    # ------------------------------------------------------------------ frames

    def _tag(self, direction: int, data: bytes) -> bytes:
        """Of the next frame of a direction: 0 sent, 1 received."""
        assert self._keys is not None
        number = self._numbers[direction]
        self._numbers[direction] += 1
        counted = struct.pack("!Q", number) + data
        return hashlib.blake2b(counted, key=self._keys[direction], digest_size=TAG_BYTES).digest()

    def _frame(self) -> dict[str, Any] | None:
        if len(self._in) < 4:
            return None
        (length,) = struct.unpack("!I", self._in[:4])
        if length > MAX_FRAME_BYTES:
            raise LineBroken(f"a frame of {length} bytes is announced ({MAX_FRAME_BYTES} allowed)")
        if len(self._in) < 4 + length + TAG_BYTES:
            return None
        data = bytes(self._in[4 : 4 + length])
        tag = bytes(self._in[4 + length : 4 + length + TAG_BYTES])
        del self._in[: 4 + length + TAG_BYTES]
        if not hmac.compare_digest(tag, self._tag(1, data)):
            raise LineBroken("a frame was forged or damaged")
        message = json.loads(data)
        if not isinstance(message, dict):
            raise LineBroken(f"expected an object, got {type(message).__name__}")
        return message


class Conversation:
    """Numbered messages that survive a broken connection: what was not acknowledged is said again."""

    def __init__(self) -> None:
        self.line: Line | None = None
        self.received = 0
        """The number of the last message heard; everything up to it has been heard once."""
        self._sent = 0
        self._unread: deque[tuple[int, dict[str, Any]]] = deque()

    def send(self, **message: Any) -> None:
        """Say something; at once if there is a connection, else when there is one again.

        Raises:
            LineBroken: the connection has just ended (the message is kept), or too much is kept.
        """
        if len(self._unread) >= MAX_UNREAD:
            raise LineBroken(f"{MAX_UNREAD} messages are not acknowledged")
        self._sent += 1
        self._unread.append((self._sent, message))
        if self.line is not None:
            self.line.send(n=self._sent, a=self.received, m=message)

    def attach(self, line: Line, heard: int) -> None:
        """Go on over a new connection; the other end has heard messages up to `heard`."""
        self.line = line
        self._acknowledged(heard)
        for number, message in list(self._unread):
            line.send(n=number, a=self.received, m=message)

    def take(self, frame: dict[str, Any]) -> dict[str, Any] | None:
        """The message in a frame; None if it has been heard before.

        Raises:
            LineBroken: a message is missing.
        """
        self._acknowledged(int(frame["a"]))
        number = int(frame["n"])
        if number <= self.received:
            return None
        if number != self.received + 1:
            raise LineBroken(f"message {self.received + 1} is missing, {number} came")
        self.received = number
        message: dict[str, Any] = frame["m"]
        return message

    def _acknowledged(self, number: int) -> None:
        while self._unread and self._unread[0][0] <= number:
            self._unread.popleft()
