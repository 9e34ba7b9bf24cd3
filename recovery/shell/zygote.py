"""A warm process that starts many jobs: torch is imported once, each supervisor is forked from it."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recovery.errors import RecoveryError
from recovery.shell.channel import Channel
from recovery.shell.linux import die_with_parent, enter_namespace

MAX_NAMESPACES = 6


@dataclass
class Job:
    """One launch. `pid` is its supervisor's."""

    pid: int
    _zygote: Zygote
    _number: int
    returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code (negative for a signal), or None while it runs."""
        self._zygote._hear()
        return self.returncode

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for the end; None if it has not come after `timeout_s`."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self.poll() is None:
            left_s = None if deadline is None else deadline - time.monotonic()
            if left_s is not None and left_s <= 0:
                return None
            select.select([self._zygote._channel], [], [], left_s)
        return self.returncode

    def kill(self) -> None:
        """SIGKILL the supervisor; everything below dies with it."""
        if self.poll() is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                return

    def terminate(self) -> None:
        """Ask the supervisor to end the job (exit code 130)."""
        if self.poll() is None:
            try:
                os.kill(self.pid, signal.SIGTERM)
            except ProcessLookupError:
                return


class Zygote:
    """Use from one thread. Everything it starts dies with the thread's process."""

    def __init__(self, process: subprocess.Popen[bytes], channel: Channel) -> None:
        self._process = process
        self._channel = channel
        self._jobs: dict[int, Job] = {}
        self._next = 0
        self.pid = process.pid

    @classmethod
    def start(cls, env: Mapping[str, str], preload: Sequence[str] = ()) -> Zygote:
        """Execute the warm process and wait until it has imported torch.

        Raises:
            RecoveryError: it ended instead of getting ready; the reason is on its stderr.
        """
        ours, theirs = Channel.pair()
        parent = os.getpid()
        process = subprocess.Popen(
            [sys.executable, "-m", "recovery.shell.zygote", str(theirs.fileno()), *preload],
            env=dict(env),
            pass_fds=[theirs.fileno()],
            preexec_fn=lambda: die_with_parent(parent),
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        zygote = cls(process, ours)
        try:
            ours.receive()
        except EOFError:
            raise RecoveryError(
                f"the warm process ended with code {process.wait()} before it was ready"
            ) from None
        return zygote

    def launch(
        self,
        args: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        stdout: int,
        stderr: int,
        namespaces: Sequence[int] = (),
    ) -> Job:
        """Start `python -m recovery.launch ARGS` in a fork; `env` is added to the warm environment.

        `namespaces` are descriptors of /proc/PID/ns/..., entered in this order before anything else: the user
        namespace comes first, it is what allows the others.

        Raises:
            RecoveryError: the warm process is gone.
        """
        self._next += 1
        number = self._next
        try:
            self._channel.send(
                (stdout, stderr, *namespaces),
                op="launch",
                number=number,
                args=list(args),
                env=dict(env),
                cwd=cwd,
            )
            while number not in self._jobs:
                self._take(self._channel.receive())
        except (EOFError, OSError):
            raise RecoveryError("the warm process is gone") from None
        return self._jobs[number]

    def stop(self) -> None:
        """End the warm process and every job that still runs."""
        self._channel.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _hear(self) -> None:
        while True:
            try:
                message = self._channel.try_receive()
            except EOFError:
                for job in self._jobs.values():
                    if job.returncode is None:
                        job.returncode = -signal.SIGKILL
                return
            if message is None:
                return
            self._take(message)

    def _take(self, message: dict[str, Any]) -> None:
        number = message["number"]
        if message["op"] == "started":
            self._jobs[number] = Job(message["pid"], self, number)
        elif message["op"] == "exited":
            self._jobs[number].returncode = message["code"]


def serve(channel: Channel) -> None:
    """The warm process's loop: fork a supervisor for each request, report how each one ended."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the starter decides what an interrupt means
    running: dict[int, int] = {}
    channel.send(op="ready", number=0)
    while True:
        readable, _, _ = select.select([channel.fileno(), reading], [], [])
        if reading in readable:
            os.read(reading, 4096)
            _report_exits(channel, running)
        if channel.fileno() in readable:
            try:
                message, fds = channel.receive_with_fds(2 + MAX_NAMESPACES)
            except EOFError:
                break
            pid = _fork_supervisor(channel, message, fds, (reading, writing))
            for fd in fds:
                os.close(fd)
            running[pid] = message["number"]
            channel.send(op="started", number=message["number"], pid=pid)
    for pid in running:
        os.kill(pid, signal.SIGKILL)  # our own children, not reaped: the pids are still theirs


def _report_exits(channel: Channel, running: dict[int, int]) -> None:
    while running:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid in running:
            code = os.waitstatus_to_exitcode(status)
            channel.send(op="exited", number=running.pop(pid), code=code)


def _fork_supervisor(
    channel: Channel, message: dict[str, Any], fds: Sequence[int], pipe: tuple[int, int]
) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        signal.set_wakeup_fd(-1)
        for fd in fds[2:]:
            enter_namespace(fd)
        # After that: with new credentials the kernel forgets whose death this process asked to follow.
        die_with_parent(parent)
        channel.close()
        for fd in pipe:
            os.close(fd)
        os.setpgid(0, 0)
        os.dup2(fds[0], 1)
        os.dup2(fds[1], 2)
        for fd in fds:
            os.close(fd)
        os.environ.update(message["env"])
        os.chdir(message["cwd"])
        from recovery.launch import main

        code = main(message["args"])
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    from recovery.shell import template

    template.warm(sys.argv[2:])
    serve(Channel(socket.socket(fileno=int(sys.argv[1]))))
