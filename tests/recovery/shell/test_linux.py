"""The Linux calls, on real processes and sockets."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from recovery.shell import linux

CONNECT = """
import socket, sys
server = socket.create_server((sys.argv[1], 0))
client = socket.create_connection(server.getsockname())
accepted, _ = server.accept()
other = socket.create_server(("127.0.0.1", 0))
mine = socket.create_connection(other.getsockname())
theirs, _ = other.accept()
print("up", flush=True)
print("read", client.recv(10), flush=True)
mine.sendall(b"still here")
print(theirs.recv(10).decode(), flush=True)
print("listening" if server.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) else "closed", flush=True)
"""


@pytest.fixture
def connected() -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CONNECT, "127.77.9.9"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield process
        process.kill()


@pytest.mark.slow
def test_shutting_sockets_ends_a_wait_and_touches_no_other_address(connected: subprocess.Popen[str]) -> None:
    assert linux.shut_sockets(connected.pid, linux.Ends("127.77.9.8")) == 0
    # Two ends, but the process may be quicker to go on than we are to reach the second.
    assert linux.shut_sockets(connected.pid, linux.Ends("127.77.9.9")) in (1, 2)
    assert connected.stdout is not None
    assert connected.stdout.read().splitlines() == ["read b''", "still here", "listening"]


@pytest.mark.slow
def test_sockets_of_a_stopped_process_can_be_shut(connected: subprocess.Popen[str]) -> None:
    os.kill(connected.pid, signal.SIGSTOP)
    assert linux.shut_sockets(connected.pid, linux.Ends("127.77.9.9")) == 2
    os.kill(connected.pid, signal.SIGCONT)
    assert connected.stdout is not None
    assert connected.stdout.readline() == "read b''\n"


def test_a_process_that_is_gone_has_no_sockets() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert linux.shut_sockets(process.pid, linux.Ends("127.77.9.9")) == 0
    assert linux.start_ticks(process.pid) is None
    assert linux.run_queue_wait_s(process.pid) == 0.0


def test_a_descriptor_that_was_reused_for_a_file_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(tmp_path / "file", "wb") as file, socket.create_server(("127.77.9.9", 0)) as server:
        # A socket when one looked, a file a moment later.
        monkeypatch.setattr(linux, "_socket_fds", lambda pid: [file.fileno(), server.fileno()])
        before = os.listdir("/proc/self/fd")
        assert [inode for inode, _ in linux.own_sockets()] == [os.fstat(server.fileno()).st_ino]
        assert linux.shut_sockets(os.getpid(), linux.Ends("127.77.9.9")) == 0
        assert os.listdir("/proc/self/fd") == before


def test_start_ticks_name_a_process() -> None:
    ours = linux.start_ticks(os.getpid())
    assert ours is not None
    assert ours > 0
    assert linux.start_ticks(os.getpid()) == ours
    assert linux.start_ticks(1) != ours


def test_duplicating_from_a_child_is_tried(require: object) -> None:
    require("pidfd_getfd")  # type: ignore[operator]
    assert linux.can_duplicate_from_children() is True


PARENT = """
import os, sys, time
from recovery.shell.linux import die_with_parent
parent = os.getpid()
child = os.fork()
if child == 0:
    die_with_parent(parent)
    time.sleep(60)
print(child, flush=True)
sys.stdin.read()
os._exit(0)
"""


@pytest.mark.slow
def test_a_child_dies_with_its_parent() -> None:
    root = Path(__file__).parents[3]
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert process.stdout is not None
    assert process.stdin is not None
    child = os.pidfd_open(int(process.stdout.readline()))
    process.kill()
    process.wait()
    ended, _, _ = select.select([child], [], [], 5)
    os.close(child)
    process.stdin.close()
    process.stdout.close()
    assert ended


def test_a_socket_of_another_family_is_left_alone() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert linux.shut_sockets(os.getpid(), linux.Ends("127.77.9.9")) == 0
        one.sendall(b"x")
        assert other.recv(1) == b"x"
