"""The supervisor: outside the training processes, it carries out what the coordinator decides.

One loop, one thread. What it hears (child status, messages, progress counters, time) becomes an event;
what the coordinator answers becomes a system call.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from typing import Any

from recovery import events
from recovery.core import messages as m
from recovery.core.blame import Progress, judge
from recovery.core.config import Config
from recovery.core.coordinator import Coordinator, Phase
from recovery.shell import page as words
from recovery.shell import wire
from recovery.shell.channel import Channel
from recovery.shell.linux import can_duplicate_from_children, run_queue_wait_s, shut_sockets
from recovery.shell.page import Page
from recovery.shell.processes import Change, Process, ProcessTable
from recovery.shell.rendezvous_address import loopback_address
from recovery.shell.store_server import StoreServer
from recovery.shell.worker import Program

CALM_TICK_S = 0.05
HEALING_TICK_S = 0.005
INTERRUPTED = 130


class Supervisor:
    """Runs one job to its end: `run()` returns the exit code."""

    def __init__(self, config: Config, program: Program, *, fork: bool = True) -> None:
        self.config = config
        self.program = program
        self.page = Page(config.world_size)
        self.processes = ProcessTable(self.page, program, fork=fork)
        self.coordinator = Coordinator(config)
        self.store = StoreServer()
        self.exit_code: int | None = None
        self._poll = select.epoll()
        self._channels: dict[int, tuple[str, Process]] = {}
        self._starved: dict[int, tuple[float, float]] = {}
        self._busy: dict[int, float] = {}
        self._interrupted: int | None = None
        self._watched_template: Channel | None = None
        self._can_shut = os.environ.get("RECOVERY_RELEASE") != "inside" and can_duplicate_from_children()
        self._fork = fork

    # ------------------------------------------------------------------ the loop

    def run(self) -> int:
        """Start the job and stay until it has ended and all its processes are gone."""
        os.environ["RECOVERY_ROLE"] = "supervisor"
        os.environ["RECOVERY_RELEASE"] = "outside" if self._can_shut else "inside"
        events.emit(
            "job.start",
            world=self.config.world_size,
            argv=[self.program.script, *self.program.arguments],
            seed=self.program.seed,
            config={name: getattr(self.config, name) for name in self.config.__dataclass_fields__},
        )
        wakeup = self._watch_signals()
        try:
            if self._fork:
                self.processes.start_template()
            self._act(self.coordinator.begin(time.monotonic()))
            while self.exit_code is None:
                self._turn(wakeup)
        finally:
            self.processes.kill_all()
        return self.exit_code

    def _watch_signals(self) -> int:
        reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_interrupt)
        self._poll.register(reading, select.EPOLLIN)
        return reading

    def _on_interrupt(self, number: int, _: Any) -> None:
        self._interrupted = number

    def _watch_template(self) -> None:
        """The first template, or the one that had to be made in its place."""
        template = self.processes.template
        if template is not None and template is not self._watched_template:
            self._poll.register(template.fileno(), select.EPOLLIN)
        self._watched_template = template

    def _turn(self, wakeup: int) -> None:
        calm = self.coordinator.phase in (Phase.RUNNING, Phase.LEAVING) and not any(
            slot.stopped_at is not None for slot in self.coordinator.slots
        )
        self._watch_template()
        ready = self._poll.poll(CALM_TICK_S if calm else HEALING_TICK_S)
        if self._interrupted is not None:
            name = signal.Signals(self._interrupted).name
            self._act([m.End(INTERRUPTED, "interrupted", name)])
            return
        # Child status first: a message of a process that died since must not be taken for life.
        readable = {fd for fd, _ in ready}
        if wakeup in readable:
            os.read(wakeup, 4096)
            for change in self.processes.changes():
                self._changed(change)
            for process in self.processes.take_unborn():
                self._forget(process)
                self._tell(m.Exited(process.proc, None, signal.SIGKILL))
        template = self.processes.template
        for fd in readable:
            if template is not None and fd == template.fileno():
                self._template_answered(template)
            elif fd in self._channels:
                self._hear(fd)
        if self.exit_code is None:
            self._read_page()
            self._tell(m.Tick())

    def _tell(self, event: m.Event) -> None:
        if self.exit_code is None:
            self._act(self.coordinator.handle(event, time.monotonic()))

    # ------------------------------------------------------------------ hearing

    def _template_answered(self, template: Channel) -> None:
        try:
            answer = template.try_receive()
        except EOFError:
            self._poll.unregister(template.fileno())
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
        self._tell(m.Started(process.proc))

    def _changed(self, change: Change) -> None:
        process = self.processes.by_pid(change.pid)
        if process is None:
            return
        since = self._last_seen(process)
        if change.stopped:
            self._tell(m.Stopped(process.proc, since))
        elif change.continued:
            self._tell(m.Continued(process.proc))
        else:
            self._drain(process)
            events.emit(
                "worker.exit",
                pid=change.pid,
                rank=process.rank,
                role="spare" if process.rank is None else "member",
                code=change.code,
                signal=change.signal,
                expected=process.fenced is not None
                or (change.code == 0 and self.coordinator.phase is Phase.LEAVING),
            )
            self._forget(process)
            self._tell(m.Exited(process.proc, change.code, change.signal, process.error, since))

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

    def _hear(self, fd: int) -> None:
        kind, process = self._channels[fd]
        channel = process.control if kind == "control" else process.store
        try:
            # Never wait here: a descriptor that was readable when the poll returned may have been closed
            # since, and its number given to the channel of a new process.
            message = channel.try_receive()
        except (EOFError, OSError):
            self._poll.unregister(fd)  # its end of life comes as a child status
            del self._channels[fd]
            return
        if message is None:
            return
        if kind == "store":
            self.store.handle(channel, message)
            return
        proc = process.proc
        match message["op"]:
            case "parked":
                pass
            case "ready":
                digest, finished = message["digest"], bool(message["finished"])
                left, because = message["generation"], message["left_because"]
                self._tell(m.Ready(proc, message["version"], digest, finished, left, because))
            case "failed":
                suspect, generation = message["suspect"], message["generation"]
                self._tell(m.Failed(proc, generation, message["kind"], message["detail"], suspect))
            case "formed":
                generation, transfer_s = message["generation"], message["transfer_s"]
                self._tell(m.Formed(proc, generation, transfer_s, message["bytes_received"]))
            case "committed":
                self._tell(m.Committed(proc, message["generation"], message["version"]))
            case "exception":
                process.error = str(message["error"])
            case other:
                raise ValueError(f"unknown message {other!r} from process {process.pid}")

    # ------------------------------------------------------------------ progress counters

    def _last_seen(self, process: Process) -> float | None:
        if process.rank is None:
            return None
        slot = self.page.slots[process.rank]
        if slot.ints[words.PID] != process.pid:
            return None
        return slot.floats[words.CHANGED_AT] or None

    def _read_page(self) -> None:
        coordinator = self.coordinator
        now = time.monotonic()
        for slot in coordinator.slots:
            until = self.page.slots[slot.rank].floats[words.BUSY_UNTIL]
            if until != self._busy.get(slot.proc, 0.0):
                self._busy[slot.proc] = until
                self._tell(m.Busy(slot.proc, until))
        if coordinator.phase is not Phase.RUNNING:
            return
        generation = coordinator.generation
        members = [slot for slot in coordinator.slots if slot.status.value == "running"]
        if len(members) < len(coordinator.slots):
            return  # some have finished: nothing is left to wait for
        slots = [self.page.slots[slot.rank] for slot in members]
        if any(slot.ints[words.GENERATION] != generation for slot in slots):
            return
        pace = [s.floats[words.STEP_S] for s in slots if s.ints[words.COMMITS] > 1]
        step_s = sorted(pace)[len(pace) // 2] if pace else None
        if step_s is not None and step_s != coordinator.step_s:
            self._tell(m.Pace(step_s))
        common = min(slot.ints[words.ISSUED] for slot in slots)
        read = [
            self._progress(member.rank, member.proc, slot, generation, common)
            for member, slot in zip(members, slots, strict=True)
        ]
        known = [progress for progress in read if progress is not None]
        if len(known) < len(members):
            return
        verdict = judge(known, self.config, step_s, now)
        if verdict is not None:
            self._tell(m.Accused(verdict.proc, generation, verdict.kind, verdict.detail, verdict.since))

    def _progress(
        self, rank: int, proc: int, slot: words.Slot, generation: int, common: int
    ) -> Progress | None:
        # Before the version: who has committed and gone on to the next step must not look as if it were
        # further inside the old one.
        issued = slot.ints[words.ISSUED]
        chain = slot.chain_at(common) if common else 0
        if chain is None or slot.chain_at(issued) is None:
            return None  # it wrote meanwhile, or is far ahead: look again at the next tick
        return Progress(
            rank=rank,
            proc=proc,
            generation=generation,
            version=slot.ints[words.VERSION],
            warm=slot.ints[words.COMMITS] > 1,
            issued=issued,
            done=slot.ints[words.DONE],
            issued_at=slot.floats[words.ISSUED_AT],
            changed_at=slot.floats[words.CHANGED_AT],
            busy_until=slot.floats[words.BUSY_UNTIL],
            starved_s=self._starved_s(proc, slot),
            common_chain=chain,
            sealing=bool(slot.ints[words.SEALING]),
        )

    def _starved_s(self, proc: int, slot: words.Slot) -> float:
        """How long the process has stood in the run queue since its last sign of life."""
        changed_at = slot.floats[words.CHANGED_AT]
        waited = run_queue_wait_s(slot.ints[words.PID])
        seen = self._starved.get(proc)
        if seen is None or seen[0] != changed_at:
            # Seen at the first tick after the sign of life; what it waited before is not forgiven.
            self._starved[proc] = (changed_at, waited)
            return 0.0
        return waited - seen[1]

    # ------------------------------------------------------------------ acting

    def _act(self, actions: list[m.Action]) -> None:
        for action in actions:
            match action:
                case m.Start(proc=proc, rank=rank):
                    process = self.processes.start(proc, rank)
                    self._watch(process)
                    if process.pid is not None:
                        self._started(process)
                case m.Promote(proc=proc, rank=rank):
                    self._promote(self.processes.by_proc[proc], rank)
                case m.Fence(proc=proc, reason=reason):
                    self._fence(self.processes.by_proc[proc], reason)
                case m.Release(proc=proc, generation=generation):
                    self._release(proc, generation)
                case m.Open():
                    self._open(action)
                case m.Leave():
                    for process in self.processes.by_proc.values():
                        if process.rank is not None:
                            self._send(process, op="leave")
                case m.Note(name=name, cause=cause, generation=generation):
                    self._note(name, cause, generation)
                case m.Recovered():
                    self._recovered(action)
                case m.End(code=code, reason=reason, detail=detail):
                    self._end(code, reason, detail)

    def _watch(self, process: Process) -> None:
        for kind, channel in (("control", process.control), ("store", process.store)):
            self._poll.register(channel.fileno(), select.EPOLLIN)
            self._channels[channel.fileno()] = (kind, process)

    def _forget(self, process: Process) -> None:
        for channel in (process.control, process.store):
            if self._channels.pop(channel.fileno(), None) is not None:
                self._poll.unregister(channel.fileno())
        self.store.forget(process.store)
        self._starved.pop(process.proc, None)
        self._busy.pop(process.proc, None)
        self.processes.forget(process)

    def _send(self, process: Process, **message: Any) -> None:
        try:
            process.control.send(**message)
        except OSError:
            return  # it has died; its exit is on the way

    def _promote(self, process: Process, rank: int) -> None:
        process.rank = rank
        events.emit("worker.promoted", pid=process.pid, rank=rank)
        self._send(process, op="rank", rank=rank)

    def _fence(self, process: Process, reason: str) -> None:
        self.processes.fence(process, reason)
        events.emit("fence", rank=process.rank, pid=process.pid, how="SIGKILL", reason=reason)

    def _release(self, proc: int, generation: int) -> None:
        if self.page.open_generation:
            self.page.open_generation = 0
            self.store.open(0)
        process = self.processes.by_proc.get(proc)
        if process is None or process.pid is None:
            return
        if process.generation == generation:
            # Once a generation: it is heard only where the worker has a releasing thread.
            process.generation = 0
            try:
                process.release.send(generation=generation)
            except OSError:
                return  # it has died; its exit is on the way
        if not self._can_shut:
            return
        count = shut_sockets(process.pid, loopback_address(generation))
        if count:
            events.emit(
                "group.release", generation=generation, pid=process.pid, rank=process.rank, sockets=count
            )

    def _open(self, action: m.Open) -> None:
        members = [
            {"rank": member.rank, "pid": self.processes.by_proc[member.proc].pid} for member in action.members
        ]
        events.emit(
            "generation.open",
            generation=action.generation,
            members=members,
            cause=action.cause,
            version=action.version,
            holders=list(action.holders),
            receivers=list(action.receivers),
        )
        self.store.open(action.generation)
        self.page.open_generation = action.generation
        opening = {**wire.fields(action), "members": [member.proc for member in action.members]}
        for member in action.members:
            process = self.processes.by_proc[member.proc]
            process.generation = action.generation
            self._send(process, op="open", **opening)

    def _note(self, name: str, cause: m.Cause | None, generation: int) -> None:
        fields: dict[str, Any] = {"generation": generation}
        if cause is not None:
            process = self.processes.by_proc.get(cause.proc) if cause.proc is not None else None
            fields |= {"rank": cause.rank, "kind": cause.kind, "detail": cause.detail}
            if process is not None:
                fields["pid"] = process.pid
            who = "a member" if cause.rank is None else f"rank {cause.rank}"
            print(f"recovery: {who}: {cause.kind} ({cause.detail})", file=sys.stderr, flush=True)
        if name == "recovery.fence":
            events.tell("recovery.regroup", generation=generation)
        events.emit(name, **fields)

    def _recovered(self, action: m.Recovered) -> None:
        phases = ("detect_s", "fence_s", "regroup_s", "transfer_s", "resume_s")
        times = {name: round(getattr(action, name), 6) for name in phases}
        events.emit(
            "recovery.done",
            generation=action.generation,
            causes=[{"rank": c.rank, "kind": c.kind, "detail": c.detail} for c in action.causes],
            since_t=action.since,
            **times,
            total_s=round(sum(times.values()), 6),
            bytes=action.bytes_received,
        )

    def _end(self, code: int, reason: str, detail: str) -> None:
        self.exit_code = code
        if reason in ("restart budget exhausted", "no progress", "deterministic failure"):
            events.emit("budget.exhausted", reason=reason, detail=detail)
        events.emit("job.end", exit_code=code, reason=reason, detail=detail)
        if code:
            print(f"recovery: the job has failed: {reason}: {detail}", file=sys.stderr, flush=True)
