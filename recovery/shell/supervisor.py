"""The supervisor that holds the coordinator: what is heard becomes an event, what is decided an act.

One loop, one thread. The processes of its own node are in its `Hands`; `fleet.py` adds those of other nodes.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable
from typing import Any

from recovery import events
from recovery.core import messages as m
from recovery.core.config import Config
from recovery.core.coordinator import Coordinator, Phase
from recovery.core.straggler import Straggler
from recovery.shell import page as words
from recovery.shell import wire
from recovery.shell.hands import Hands
from recovery.shell.page import Page
from recovery.shell.reactor import Reactor
from recovery.shell.store_server import StoreServer
from recovery.shell.watch import Watch
from recovery.shell.worker import Program

CALM_TICK_S = 0.05
HEALING_TICK_S = 0.005
INTERRUPTED = 130


class Supervisor:
    """Runs one job to its end: `run()` returns the exit code."""

    def __init__(self, config: Config, program: Program, *, fork: bool = True) -> None:
        self.config = config
        self.program = program
        self.exit_code: int | None = None
        self.reactor = Reactor()
        self.page = Page(config.world_size)
        self.coordinator = self._make_coordinator()
        self.store = StoreServer()
        self.hands = Hands(
            self.reactor,
            self.page,
            program,
            fork=fork,
            report=self._tell,
            ask_store=lambda process, request: self.store.handle(process.store, request),
            forget_store=lambda process: self.store.forget(process.store),
            leaving=lambda: self.coordinator.phase is Phase.LEAVING,
        )
        self.watch = Watch(self.page, config, self._starved_s, self._is_fresh, self._straggles)
        self.pids: dict[int, int] = {}
        """proc -> pid on its node, for the record."""
        self._interrupted: int | None = None

    def _make_coordinator(self) -> Coordinator:
        return Coordinator(self.config)

    def _starved_s(self, proc: int, slot: words.Slot) -> float:
        return self.hands.starved_s(proc, slot)

    def _is_fresh(self, now: float) -> bool:
        return True

    # ------------------------------------------------------------------ the loop

    def run(self) -> int:
        """Start the job and stay until it has ended and all its processes are gone."""
        os.environ["RECOVERY_ROLE"] = "supervisor"
        events.emit(
            "job.start",
            world=self.config.world_size,
            argv=[self.program.script, *self.program.arguments],
            seed=self.program.seed,
            config={name: getattr(self.config, name) for name in self.config.__dataclass_fields__},
        )
        self.reactor.watch_children(self.hands.children_changed)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_interrupt)
        try:
            self.hands.ready()
            self._begin()
            while self.exit_code is None:
                self._turn()
        finally:
            self.hands.processes.kill_all()
            self._part()
        return self.exit_code

    def _begin(self) -> None:
        self._act(self.coordinator.begin(time.monotonic()))

    def _part(self) -> None:
        """The job is over, one way or the other."""

    def _on_interrupt(self, number: int, _: Any) -> None:
        self._interrupted = number

    def _turn(self) -> None:
        calm = self.coordinator.phase in (Phase.RUNNING, Phase.LEAVING) and not any(
            slot.stopped_at is not None for slot in self.coordinator.slots
        )
        self.hands.watch_template()
        self.reactor.turn(CALM_TICK_S if calm else HEALING_TICK_S)
        if self._interrupted is not None:
            name = signal.Signals(self._interrupted).name
            self._act([m.End(INTERRUPTED, "interrupted", name)])
            return
        if self.exit_code is None:
            for event in self.watch.events(self.coordinator, time.monotonic()):
                self._tell(event)
            self._tell(m.Tick())

    def _tell(self, event: m.Event) -> None:
        if self.exit_code is not None:
            return
        match event:
            case m.Started(proc=proc, pid=pid) if pid is not None:
                self.pids[proc] = pid
            case m.Exited(proc=proc):
                self.watch.forget(proc)
        self._act(self.coordinator.handle(event, time.monotonic()))
        if isinstance(event, m.Exited):
            self.pids.pop(event.proc, None)

    # ------------------------------------------------------------------ acting

    def _act(self, actions: Iterable[m.Action]) -> None:
        for action in actions:
            match action:
                case m.Start(proc=proc, rank=rank):
                    self.hands.start(proc, rank)
                case m.Promote(proc=proc, rank=rank):
                    self.hands.promote(proc, rank)
                case m.Fence(proc=proc, reason=reason):
                    self.hands.fence(proc, reason)
                case m.Release(proc=proc, generation=generation):
                    self.store.close()
                    self.hands.release(proc, generation, self.store.ends(generation))
                case m.Open():
                    self._open(action)
                case m.Leave():
                    self.hands.leave()
                case _:
                    self._record(action)

    def _open(self, action: m.Open) -> None:
        members = [{"rank": member.rank, "pid": self.pids.get(member.proc)} for member in action.members]
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
        self._announce(action, {**wire.fields(action), "members": [member.proc for member in action.members]})

    def _announce(self, action: m.Open, opening: dict[str, Any]) -> None:
        self.hands.open(opening, [member.proc for member in action.members])

    # ------------------------------------------------------------------ the record

    def _straggles(self, straggler: Straggler) -> None:
        fields = {name: getattr(straggler, name) for name in straggler.__dataclass_fields__}
        events.emit("straggler", **{**fields, "late_s": round(straggler.late_s, 3)})

    def _record(self, action: m.Action) -> None:
        match action:
            case m.Note(name=name, cause=cause, generation=generation):
                self._note(name, cause, generation)
            case m.Recovered():
                self._recovered(action)
            case m.End(code=code, reason=reason, detail=detail):
                self._end(code, reason, detail)
            case other:
                raise ValueError(f"no way to carry out {other!r}")

    def _note(self, name: str, cause: m.Cause | None, generation: int) -> None:
        fields: dict[str, Any] = {"generation": generation}
        if cause is not None:
            fields |= {"rank": cause.rank, "kind": cause.kind, "detail": cause.detail}
            if cause.proc is not None and cause.proc in self.pids:
                fields["pid"] = self.pids[cause.proc]
            if cause.node is not None:
                fields["lost_node"] = cause.node
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
