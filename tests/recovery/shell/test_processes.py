"""The supervisor's children: which of them are workers. Tried in a process that may become a subreaper."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.recovery.jobs import ROOT

SETUP = """
import os, signal
from recovery.shell.channel import Channel
from recovery.shell.page import Page
from recovery.shell.processes import Process, ProcessTable
from recovery.shell.worker import Program

table = ProcessTable(Page(1), Program("none.py"), fork=True)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})

def child_that_ends():
    pid = os.fork()
    if pid == 0:
        os._exit(3)
    signal.sigtimedwait({signal.SIGCHLD}, 20)
    return pid

def unborn(proc):
    ends = [Channel.pair()[0] for _ in range(3)]
    table.by_proc[proc] = Process(proc, None, *ends)
"""


def run(code: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SETUP + code],
        capture_output=True,
        text=True,
        timeout=60,
        env=env,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_an_orphan_of_the_users_is_reaped_and_forgotten() -> None:
    """Its number may be given to a worker later, which must not be taken for dead."""
    assert run("pid = child_that_ends(); print(table.changes(), table.forked(1, pid))") == "[] []"


def test_a_worker_that_ended_before_its_birth_was_told_is_not_missed() -> None:
    code = """
unborn(1)
pid = child_that_ends()
print(table.changes(), [change.code for change in table.forked(1, pid)])
"""
    assert run(code) == "[] [3]"


def test_an_orphan_seen_while_a_worker_is_being_born_is_forgotten_with_the_birth() -> None:
    code = """
unborn(1)
orphan = child_that_ends()
table.changes()
table.forked(1, 999_999)
print(table.forked(2, orphan))
"""
    assert run(code) == "[]"
