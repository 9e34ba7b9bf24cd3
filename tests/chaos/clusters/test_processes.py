"""Processes of a run: found by marker wherever they went, and never confused with others."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaos.clusters import processes

RUN = f"test-{os.getpid()}"


def start(code: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code], env={processes.MARKER: RUN, **(env or {})}
    )


@pytest.mark.slow
def test_every_descendant_is_found_and_ended_wherever_it_went(tmp_path: Path) -> None:
    code = (
        "import os, time\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        if os.fork(): os._exit(0)\n"
        "        time.sleep(30)\n"
        f"open({str(tmp_path / 'ready')!r}, 'w').close()\n"
        "time.sleep(30)"
    )
    process = start(code)
    limit = time.monotonic() + 5
    while time.monotonic() < limit:
        # The ones in between must have ended: only then are the others on their own.
        if (tmp_path / "ready").exists() and len(processes.marked(RUN)) == 4:
            break
        time.sleep(0.01)
    assert len(processes.marked(RUN)) == 4
    assert processes.marked(RUN, spare=(process.pid,))
    assert processes.kill_marked(RUN, 5.0) == []
    assert process.wait(5) == -9
    assert processes.marked(RUN) == []


def test_a_longer_marker_is_another_run() -> None:
    process = start("import time; time.sleep(30)")
    try:
        assert [p.pid for p in processes.marked(RUN)] == [process.pid]
        assert processes.marked(RUN[:-1]) == []
        assert processes.marked(RUN + "x") == []
    finally:
        process.kill()
        process.wait()


def test_a_reused_pid_is_not_killed() -> None:
    process = subprocess.Popen(["sleep", "30"])
    try:
        seen = processes.read(process.pid)
        assert seen is not None
        other = processes.Process(seen.pid, seen.start_ticks - 1, seen.state, seen.ppid)
        assert not processes.kill(other)
        assert process.poll() is None
        assert processes.kill(seen)
        assert process.wait(5) == -9
    finally:
        process.kill()
        process.wait()


def test_a_zombie_has_ended() -> None:
    process = subprocess.Popen(["true"])
    assert processes.wait_ended(process.pid, 5.0)
    seen = processes.read(process.pid)
    assert seen is not None
    assert seen.ended
    assert not processes.is_alive(seen.pid, seen.start_ticks)
    process.wait()
    assert processes.read(process.pid) is None


def test_this_process_is_its_own_in_its_namespace() -> None:
    assert processes.inner_pid(os.getpid()) == os.getpid()
    inode = processes.namespace_of(os.getpid())
    assert inode is not None
    assert os.getpid() in [p.pid for p in processes.in_namespace(inode)]
