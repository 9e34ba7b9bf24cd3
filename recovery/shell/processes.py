"""Creating, fencing and reaping the processes of one job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from recovery.shell.channel import Channel
from recovery.shell.linux import Ends, become_subreaper, die_with_parent, start_ticks
from recovery.shell.page import Page
from recovery.shell.worker import Program

GIVE_UP_S = 10.0
"""A killed process in uninterruptible sleep can't be reaped; the supervisor must still end."""


@dataclass
class Process:
    """A worker as the supervisor sees it."""

    proc: int
    rank: int | None
    control: Channel
    store: Channel
    release: Channel
    pid: int | None = None
    error: str | None = None
    fenced: str | None = None
    local_rank: int | None = None
    """Its number among the ranks of this node: which device it uses."""
    generation: int = 0
    """The last generation that it was told to join."""
    released: Ends | None = None
    """What it was told to let go of in that generation."""


@dataclass(frozen=True)
class Change:
    """What the kernel says about a child."""

    pid: int
    code: int | None = None
    signal: int | None = None
    stopped: bool = False
    continued: bool = False


class ProcessTable:
    """All workers of a job. They are children of this process: a template forks them twice."""

    def __init__(self, page: Page, program: Program, *, fork: bool) -> None:
        self._page = page
        self._program = program
        self._fork = fork
        self.by_proc: dict[int, Process] = {}
        self.template: Channel | None = None
        self._template_pid: int | None = None
        self._unclaimed: dict[int, list[Change]] = {}
        self._unborn: list[Process] = []
        become_subreaper()

    # ------------------------------------------------------------------ creating

    def start_template(self) -> None:
        """Fork the template. Called while this process has one thread and no worker's descriptors."""
        ours, theirs = Channel.pair()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                die_with_parent(parent)
                ours.close()
                for process in self.by_proc.values():
                    self._close(process)
                from recovery.shell import template

                template.warm(self._program.preload)
                template.serve(theirs, self._page, self._program)
                code = 0
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                os._exit(code)
        theirs.close()
        self.template, self._template_pid = ours, pid

    def start(self, proc: int, rank: int | None) -> Process:
        """Ask for a new worker. Its pid is known at once when executed, later when forked."""
        control, their_control = Channel.pair()
        store, their_store = Channel.pair()
        release, their_release = Channel.pair()
        theirs = (their_control, their_store, their_release)
        process = Process(proc, None, control, store, release)
        if rank is not None:
            self.give_rank(process, rank)
        self.by_proc[proc] = process
        if self._fork:
            if self.template is None:
                self.start_template()
            assert self.template is not None
            try:
                self.template.send(
                    [end.fileno() for end in theirs], proc=proc, rank=rank, local_rank=process.local_rank
                )
            except OSError:
                pass  # it has just died: this birth is one of those that it owes (`take_unborn`)
        else:
            process.pid = self._execute(process, theirs)
        for end in theirs:
            end.close()
        return process

    def give_rank(self, process: Process, rank: int) -> None:
        """A logical rank, and the number on this node that goes with it if it is free, else the lowest."""
        taken = {other.local_rank for other in self.by_proc.values() if other is not process}
        mine = rank % self._program.local_world_size
        process.rank = rank
        process.local_rank = mine if mine not in taken else min(set(range(len(taken) + 1)) - taken)

    def _execute(self, process: Process, ends: Sequence[Channel]) -> int:
        fds = dict(zip(("control", "store", "release"), (end.fileno() for end in ends), strict=True))
        fds["page"] = self._page.fd
        link = {
            **fds,
            "proc": process.proc,
            "rank": process.rank,
            "local_rank": process.local_rank,
            "world_size": self._page.world_size,
            "program": asdict(self._program),
        }
        parent = os.getpid()
        child = subprocess.Popen(
            [sys.executable, "-m", "recovery.shell.worker"],
            env={**os.environ, "RECOVERY_LINK": json.dumps(link)},
            pass_fds=list(fds.values()),
            preexec_fn=lambda: die_with_parent(parent),
        )
        child.returncode = 0  # reaped here, by waitpid, not by subprocess
        return child.pid

    def forked(self, proc: int, pid: int) -> list[Change]:
        """The template has answered; returns what the kernel already said about this child."""
        process = self.by_proc.get(proc)
        if process is not None:
            process.pid = pid
        earlier = self._unclaimed.pop(pid, [])
        if not self._births_expected():
            # Whoever is left in here is an orphan of the user's; its number may be given to a worker later.
            self._unclaimed.clear()
        return earlier

    def _births_expected(self) -> bool:
        return any(process.pid is None for process in self.by_proc.values())

    # ------------------------------------------------------------------ ending

    def fence(self, process: Process, reason: str) -> None:
        """Kill it. It is our child and not yet reaped, so its pid can't have been given away."""
        process.fenced = reason
        if process.pid is not None:
            os.kill(process.pid, signal.SIGKILL)

    def forget(self, process: Process) -> None:
        self.by_proc.pop(process.proc, None)
        self._close(process)

    @staticmethod
    def _close(process: Process) -> None:
        for channel in (process.control, process.store, process.release):
            channel.close()

    def kill_all(self) -> None:
        """End every process of the job and reap what is ours."""
        pids = [process.pid for process in self.by_proc.values() if process.pid is not None]
        if self._template_pid is not None:
            pids.append(self._template_pid)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        # A worker that was just being forked, or a user's orphan, is our child by now or will be at once.
        deadline = time.monotonic() + GIVE_UP_S
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        while (left_s := deadline - time.monotonic()) > 0:
            for child in _children():
                try:
                    os.kill(child, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            signal.sigtimedwait({signal.SIGCHLD}, left_s)
        print(f"recovery: processes that can't be reaped: {_children()}", file=sys.stderr, flush=True)

    # ------------------------------------------------------------------ watching

    def by_pid(self, pid: int) -> Process | None:
        return next((process for process in self.by_proc.values() if process.pid == pid), None)

    def changes(self) -> list[Change]:
        """Everything that has happened to our children since the last call."""
        found = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if os.WIFSTOPPED(status):
                change = Change(pid, stopped=True)
            elif os.WIFCONTINUED(status):
                change = Change(pid, continued=True)
            elif os.WIFSIGNALED(status):
                change = Change(pid, signal=os.WTERMSIG(status))
            else:
                change = Change(pid, code=os.WEXITSTATUS(status))
            if pid == self._template_pid:
                self._template_changed(change)
            elif self.by_pid(pid) is not None:
                found.append(change)
            elif self._births_expected():
                self._unclaimed.setdefault(pid, []).append(change)
        return found

    def _template_changed(self, change: Change) -> None:
        """A template that has died takes the births it owed with it; the next start makes a new one."""
        if change.stopped or change.continued:
            return
        if self.template is not None:
            self.template.close()
        self.template = self._template_pid = None
        self._unborn += [process for process in self.by_proc.values() if process.pid is None]

    def take_unborn(self) -> list[Process]:
        """Processes that were asked for and will never come."""
        unborn, self._unborn = self._unborn, []
        return unborn

    def start_ticks(self, process: Process) -> int | None:
        return start_ticks(process.pid) if process.pid is not None else None


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as children:
            return [int(pid) for pid in children.read().split()]
    except FileNotFoundError:
        return []
