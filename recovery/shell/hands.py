"""What a supervisor does with its own hands: the processes of its node.

It carries out what the coordinator decided for them and reports what the kernel and they say, whether the
coordinator lives in this process or on another node.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from recovery import events
from recovery.core import messages as m
from recovery.shell import page as words
from recovery.shell import wire
from recovery.shell.channel import Channel
from recovery.shell.linux import Ends, can_duplicate_from_children, run_queue_wait_s, shut_sockets
from recovery.shell.page import Page
from recovery.shell.processes import Change, Process, ProcessTable
from recovery.shell.reactor import Reactor
from recovery.shell.worker import Program

KILL_S = 10.0
"""A killed process in uninterruptible sleep can't be reaped; whoever waits for it must go on."""


class Hands:
    """The processes of one node.

    Args:
        report: told every event of theirs.
        ask_store: told what a worker asks of the rendezvous store; the answer goes to its `store` channel.
        leaving: whether the job is in its last phase, where an exit with code 0 is expected.
    """

    def __init__(
        self,
        reactor: Reactor,
        page: Page,
        program: Program,
        *,
        fork: bool,
        report: Callable[[m.Event], None],
        ask_store: Callable[[Process, dict[str, Any]], None],
        forget_store: Callable[[Process], None],
        leaving: Callable[[], bool],
    ) -> None:
        self.page = page
        self.processes = ProcessTable(page, program, fork=fork)
        self._reactor = reactor
        self._fork = fork
        self._report = report
        self._ask_store = ask_store
        self._forget_store = forget_store
        self._leaving = leaving
        self._starved: dict[int, tuple[float, float]] = {}
        self._watched_template: Channel | None = None
        self.can_shut = os.environ.get("RECOVERY_RELEASE") != "inside" and can_duplicate_from_children()
        os.environ["RECOVERY_RELEASE"] = "outside" if self.can_shut else "inside"

    def ready(self) -> None:
        """Start the template, before any worker's descriptors are open here."""
        if self._fork:
            self.processes.start_template()

    def watch_template(self) -> None:
        """The first template, or the one that had to be made in its place."""
        template = self.processes.template
        if template is not None and template is not self._watched_template:
            self._reactor.watch(template.fileno(), lambda: self._template_answered(template))
        self._watched_template = template

    # ------------------------------------------------------------------ hearing

    def children_changed(self) -> None:
        """Some child's state has changed."""
        template = self.processes.template
        if template is not None:
            # Its death closes the channel, which must be forgotten before that.
            self._reactor.drop(template.fileno())
        for change in self.processes.changes():
            self._changed(change)
        if template is not None and self.processes.template is template:
            self._reactor.watch(template.fileno(), lambda: self._template_answered(template))
        for process in self.processes.take_unborn():
            self._forget(process)
            self._report(m.Exited(process.proc, None, signal.SIGKILL))

    def _template_answered(self, template: Channel) -> None:
        try:
            answer = template.try_receive()
        except EOFError:
            self._reactor.drop(template.fileno())
            return
        if answer is None:
            return
        process = self.processes.by_proc.get(answer["proc"])
        earlier = self.processes.forked(answer["proc"], answer["pid"])
        if process is not None:
            self._started(process)
            if process.fenced is not None:
                self.processes.fence(process, process.fenced)
        for change in earlier:
            self._changed(change)

    def _started(self, process: Process) -> None:
        events.emit(
            "worker.start",
            pid=process.pid,
            start_ticks=self.processes.start_ticks(process),
            role="spare" if process.rank is None else "member",
            rank=process.rank,
        )
        self._report(m.Started(process.proc, process.pid))

    def _changed(self, change: Change) -> None:
        process = self.processes.by_pid(change.pid)
        if process is None:
            return
        since = self._last_seen(process)
        if change.stopped:
            self._report(m.Stopped(process.proc, since))
        elif change.continued:
            self._report(m.Continued(process.proc))
        else:
            self._drain(process)
            events.emit(
                "worker.exit",
                pid=change.pid,
                rank=process.rank,
                role="spare" if process.rank is None else "member",
                code=change.code,
                signal=change.signal,
                expected=process.fenced is not None or (change.code == 0 and self._leaving()),
            )
            self._forget(process)
            self._report(m.Exited(process.proc, change.code, change.signal, process.error, since))

    def _drain(self, process: Process) -> None:
        """Its last words (the exception that ended it) may still be in the channel."""
        while True:
            try:
                message = process.control.try_receive()
            except (EOFError, OSError):
                return
            if message is None:
                return
            if message.get("op") == "exception":
                process.error = str(message["error"])

    def _receive(self, process: Process, channel: Channel) -> dict[str, Any] | None:
        try:
            return channel.try_receive()
        except (EOFError, OSError):
            self._reactor.drop(channel.fileno())  # its end of life comes as a child status
            return None

    def _hear_store(self, process: Process) -> None:
        message = self._receive(process, process.store)
        if message is not None:
            self._ask_store(process, message)

    def _hear_control(self, process: Process) -> None:
        message = self._receive(process, process.control)
        if message is None:
            return
        match message["op"]:
            case "parked":
                pass
            case "exception":
                process.error = str(message["error"])
            case _:
                self._report(wire.reported(process.proc, message))

    def _last_seen(self, process: Process) -> float | None:
        if process.rank is None:
            return None
        slot = self.page.slots[process.rank]
        if slot.ints[words.PID] != process.pid:
            return None
        return slot.floats[words.CHANGED_AT] or None

    def starved_s(self, proc: int, slot: words.Slot) -> float:
        """How long a process has stood in the run queue since its last sign of life."""
        changed_at = slot.floats[words.CHANGED_AT]
        waited = run_queue_wait_s(slot.ints[words.PID])
        seen = self._starved.get(proc)
        if seen is None or seen[0] != changed_at:
            # Seen at the first tick after the sign of life; what it waited before is not forgiven.
            self._starved[proc] = (changed_at, waited)
            return 0.0
        return waited - seen[1]

    # ------------------------------------------------------------------ acting

    def start(self, proc: int, rank: int | None) -> None:
        process = self.processes.start(proc, rank)
        self._reactor.watch(process.control.fileno(), lambda: self._hear_control(process))
        self._reactor.watch(process.store.fileno(), lambda: self._hear_store(process))
        if process.pid is not None:
            self._started(process)

    def promote(self, proc: int, rank: int) -> None:
        process = self.processes.by_proc.get(proc)
        if process is None:
            return  # it has died; its exit is on the way
        self.processes.give_rank(process, rank)
        events.emit("worker.promoted", pid=process.pid, rank=rank)
        self._send(process, op="rank", rank=rank, local_rank=process.local_rank)

    def fence(self, proc: int, reason: str) -> None:
        process = self.processes.by_proc.get(proc)
        if process is None:
            return  # it has died; its exit is on the way
        self.processes.fence(process, reason)
        events.emit("fence", rank=process.rank, pid=process.pid, how="SIGKILL", reason=reason)

    def open(self, opening: Mapping[str, Any], procs: Iterable[int]) -> None:
        """Tell these processes to form a generation."""
        generation = int(opening["generation"])
        self.page.open_generation = generation
        for proc in procs:
            process = self.processes.by_proc.get(proc)
            if process is not None:
                process.generation, process.released = generation, None
                self._send(process, op="open", **opening)

    def release(self, proc: int, generation: int, ends: Ends) -> None:
        """End every wait of this process in groups up to `generation`, whose sockets are at `ends`."""
        if self.page.open_generation:
            self.page.open_generation = 0
        process = self.processes.by_proc.get(proc)
        if process is None or process.pid is None:
            return
        if process.generation == generation and process.released != ends:
            # Not each time: it is heard only where the worker has a releasing thread.
            process.released = ends
            try:
                process.release.send(generation=generation, ends=ends.as_json())
            except OSError:
                return  # it has died; its exit is on the way
        if not self.can_shut:
            return
        count = shut_sockets(process.pid, ends)
        if count:
            events.emit(
                "group.release", generation=generation, pid=process.pid, rank=process.rank, sockets=count
            )

    def leave(self) -> None:
        """Everyone has finished."""
        for process in self.processes.by_proc.values():
            if process.rank is not None:
                self._send(process, op="leave")

    def end_all(self, reason: str) -> bool:
        """Kill every worker and wait until all are reaped; the template stays. False if one can't be.

        Afterwards nothing that was started here can act any more.
        """
        self.page.open_generation = 0
        for process in list(self.processes.by_proc.values()):
            self.processes.fence(process, reason)
        deadline = time.monotonic() + KILL_S
        while self.processes.by_proc and time.monotonic() < deadline:
            self.watch_template()
            self._reactor.turn(0.05)
        return not self.processes.by_proc

    def answer_store(self, proc: int, fields: Mapping[str, Any]) -> None:
        """What the rendezvous store answers to a worker of this node."""
        process = self.processes.by_proc.get(proc)
        if process is None:
            return
        try:
            process.store.send(**fields)
        except OSError:
            pass  # it has died; its exit is on the way

    def _forget(self, process: Process) -> None:
        for channel in (process.control, process.store):
            self._reactor.drop(channel.fileno())
        self._forget_store(process)
        self._starved.pop(process.proc, None)
        self.processes.forget(process)

    @staticmethod
    def _send(process: Process, **message: Any) -> None:
        try:
            process.control.send(**message)
        except OSError:
            return  # it has died; its exit is on the way
