"""Who hosts a store, and who is never taken for it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from injectors import signals
from injectors.fault import FaultError
from injectors.marks import MARKER
from injectors.store import host


def test_the_host_is_found_from_the_environment_and_who_listens(hosts: Any, rank: Any) -> None:
    hosts.make()
    pid, port = hosts.make()
    victim = rank(port)
    found = host.find(victim)
    assert (found.pid, found.start_ticks) == (pid, signals.start_ticks(pid))
    assert (found.port, found.named) == (port, f"localhost:{port}")
    assert not found.is_victim(victim)
    # A store of torch listens on every interface; it is asked over the loopback.
    assert found.address == "127.0.0.1"


def test_the_thread_that_answers_is_found(hosts: Any, rank: Any) -> None:
    pid, port = hosts.make()
    thread = host.daemon_thread(host.find(rank(port)))
    with open(f"/proc/{pid}/task/{thread}/comm", encoding="ascii") as file:
        assert file.read().strip() == "pt_tcpstore_uv"


def test_the_older_kind_of_server_has_no_such_thread(hosts: Any, rank: Any) -> None:
    _, port = hosts.make(use_libuv=False)
    assert host.daemon_thread(host.find(rank(port))) is None


def test_a_store_of_another_run_is_refused(hosts: Any, rank: Any) -> None:
    pid, port = hosts.make()
    with pytest.raises(FaultError, match=rf"served by pid {pid} .*not of this run: it is left alone"):
        host.find(rank(port, run="another"))


def test_a_rank_without_the_marker_is_refused(hosts: Any, rank: Any) -> None:
    _, port = hosts.make()
    with pytest.raises(FaultError, match="carries no TORCH_CHAOS_RUN"):
        host.find(rank(port, run=""))


def test_the_store_of_a_job_that_was_attached_to_needs_no_marker(hosts: Any, rank: Any) -> None:
    pid, port = hosts.make()
    ticks = signals.start_ticks(pid)
    assert ticks is not None
    victim = replace(rank(port, run=""), run="r1")
    own = (victim.pid, victim.start_ticks)
    found = host.find(replace(victim, job=(own, (pid, ticks))))
    assert (found.pid, found.run) == (pid, "r1")
    # Neither a stranger, nor one who has the pid of a process of the job by now.
    for job in ((own,), (own, (pid, ticks + 1))):
        with pytest.raises(FaultError, match=rf"served by pid {pid} .*: it is left alone"):
            host.find(replace(victim, job=job))


def test_a_job_without_a_store_says_so(rank: Any, dead: Any) -> None:
    with pytest.raises(FaultError, match="no MASTER_PORT: this job has no TCPStore"):
        host.find(rank(None))
    with pytest.raises(FaultError, match=r"no process of this run listens on localhost:1\b"):
        host.find(rank(1))
    with pytest.raises(FaultError, match="left alone"):
        host.find(dead)


def test_a_forked_child_that_holds_the_socket_too_is_not_the_host(rank: Any, tmp_path: Any) -> None:
    script = (
        "import os, signal, socket\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "child = os.fork()\n"
        "if child: print(server.getsockname()[1], child, flush=True)\n"
        "signal.pause()\n"
    )
    env = {**os.environ, MARKER: "test-of-the-store"}
    process = subprocess.Popen([sys.executable, "-c", script], env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port, child = map(int, process.stdout.readline().split())
        assert host.find(rank(port)).pid == process.pid
        os.kill(child, 9)
    finally:
        process.kill()
        process.communicate()
