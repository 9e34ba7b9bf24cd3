"""The line between a node and the coordinator: who is believed, and what a broken connection costs."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from recovery.shell.line import MAGIC, Conversation, Line, LineBroken

SECRET = b"a secret of the job, long enough"
Pair = tuple[Line, Line]


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    pair = socket.socketpair()
    yield pair
    for end in pair:
        end.close()


def greeted(
    pair: tuple[socket.socket, socket.socket], secrets: tuple[bytes, bytes] = (SECRET, SECRET)
) -> Pair:
    coordinator = Line(pair[0], secrets[0], coordinator=True)
    node = Line(pair[1], secrets[1], coordinator=False)
    for line in (coordinator, node):
        line.flush()
    for line in (coordinator, node, coordinator, node):
        line.receive()
    return coordinator, node


def test_who_knows_the_secret_is_heard(sockets: tuple[socket.socket, socket.socket]) -> None:
    coordinator, node = greeted(sockets)
    assert coordinator.open
    assert node.open
    node.send(op="beat", number=1)
    node.send(op="beat", number=2)
    assert [message["number"] for message in coordinator.receive()] == [1, 2]
    coordinator.send(op="grant")
    assert node.receive() == [{"op": "grant"}]


def test_who_does_not_know_it_is_not(sockets: tuple[socket.socket, socket.socket]) -> None:
    with pytest.raises(LineBroken, match="does not know the job's secret"):
        greeted(sockets, (SECRET, b"another secret, also long enough"))


def test_a_reflected_proof_is_none(sockets: tuple[socket.socket, socket.socket]) -> None:
    """Who only sends back what it is sent proves nothing."""
    line, mirror = Line(sockets[0], SECRET, coordinator=True), sockets[1]
    line.flush()
    mirror.sendall(mirror.recv(4096))
    line.receive()
    mirror.sendall(mirror.recv(4096))
    with pytest.raises(LineBroken, match="secret"):
        line.receive()


def test_another_protocol_is_told_at_once(sockets: tuple[socket.socket, socket.socket]) -> None:
    line = Line(sockets[0], SECRET, coordinator=True)
    sockets[1].sendall(b"GET / HTTP/1.1\r\n")
    with pytest.raises(LineBroken, match="another protocol"):
        line.receive()


@pytest.mark.parametrize("wrong", ["content", "repeated"])
def test_a_frame_that_was_touched_breaks_the_line(
    sockets: tuple[socket.socket, socket.socket], wrong: str
) -> None:
    coordinator, node = greeted(sockets)
    node.send(op="beat")
    frame = sockets[0].recv(4096)
    if wrong == "content":
        sockets[1].sendall(frame.replace(b"beat", b"left"))
    else:
        sockets[1].sendall(frame + frame)
    with pytest.raises(LineBroken, match="forged or damaged"):
        coordinator.receive()


def test_a_frame_without_end_is_not_waited_for(sockets: tuple[socket.socket, socket.socket]) -> None:
    coordinator, _ = greeted(sockets)
    sockets[1].sendall(struct.pack("!I", 1 << 31))
    with pytest.raises(LineBroken, match="is announced"):
        coordinator.receive()


def test_bytes_may_come_one_by_one(sockets: tuple[socket.socket, socket.socket]) -> None:
    coordinator, node = greeted(sockets)
    node.send(op="beat", number=7)
    frame = sockets[0].recv(4096)
    heard = []
    for byte in frame:
        sockets[1].sendall(bytes([byte]))
        heard += coordinator.receive()
    assert heard == [{"op": "beat", "number": 7}]
    assert frame[: len(MAGIC)] != MAGIC


def test_what_was_lost_with_a_connection_is_said_again_once() -> None:
    said, heard = Conversation(), Conversation()
    told: list[int] = []

    def connect() -> tuple[Pair, tuple[socket.socket, socket.socket]]:
        ends = socket.socketpair()
        lines = greeted(ends)
        heard.attach(lines[0], said.received)
        said.attach(lines[1], heard.received)
        return lines, ends

    def listen(line: Line) -> None:
        for frame in line.receive():
            message = heard.take(frame)
            if message is not None:
                told.append(message["number"])

    (coordinator, _), ends = connect()
    said.send(number=1)
    listen(coordinator)
    said.send(number=2)  # on its way when the connection breaks
    for end in ends:
        end.close()
    said.line = heard.line = None
    said.send(number=3)  # said without one
    (coordinator, _), ends = connect()
    said.send(number=4)
    listen(coordinator)
    assert told == [1, 2, 3, 4]
    for end in ends:
        end.close()


def test_a_gap_is_not_passed_over() -> None:
    conversation = Conversation()
    assert conversation.take({"n": 1, "a": 0, "m": {"op": "x"}}) == {"op": "x"}
    assert conversation.take({"n": 1, "a": 0, "m": {"op": "x"}}) is None
    with pytest.raises(LineBroken, match="message 2 is missing"):
        conversation.take({"n": 3, "a": 0, "m": {}})
