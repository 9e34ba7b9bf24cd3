"""Messages between the supervisor and its processes: JSON over a private SOCK_SEQPACKET pair."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from typing import Any

MAX_MESSAGE_BYTES = 1 << 17


class Channel:
    """One end of a pair. A message is one packet, so there is no framing and none can be torn.

    Raises:
        EOFError: from `receive`, when the other end is gone.
        OSError: from `send`, when the other end is gone.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in ends:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MAX_MESSAGE_BYTES)
        return cls(ends[0]), cls(ends[1])

    def fileno(self) -> int:
        return self.sock.fileno()

    def close(self) -> None:
        self.sock.close()

    def send(self, fds: Sequence[int] = (), **message: Any) -> None:
        data = json.dumps(message, separators=(",", ":")).encode()
        if len(data) > MAX_MESSAGE_BYTES:
            raise ValueError(f"message of {len(data)} bytes is too long ({MAX_MESSAGE_BYTES} allowed)")
        if fds:
            socket.send_fds(self.sock, [data], fds)
        else:
            self.sock.send(data)

    def receive(self) -> dict[str, Any]:
        return self.receive_with_fds(0)[0]

    def receive_with_fds(self, count: int) -> tuple[dict[str, Any], list[int]]:
        fds: list[int] = []
        if count:
            data, fds, _, _ = socket.recv_fds(self.sock, MAX_MESSAGE_BYTES, count)
        else:
            data = self.sock.recv(MAX_MESSAGE_BYTES)
        return _decoded(data), fds

    def try_receive(self) -> dict[str, Any] | None:
        """A message if one has arrived, else None."""
        try:
            data = self.sock.recv(MAX_MESSAGE_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except ConnectionResetError:
            data = b""  # the other end died with our message unread: gone all the same
        return _decoded(data)


def _decoded(data: bytes) -> dict[str, Any]:
    if not data:
        raise EOFError("the other end of the channel is closed")
    message = json.loads(data)
    if not isinstance(message, dict):
        raise ValueError(f"expected an object, got {type(message).__name__}")
    return message
