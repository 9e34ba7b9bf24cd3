"""One session with a job that runs already: its faults, their evidence, their undo, what became of it.

Rules kept here:

- The job is never ended here: no process of it bears the run's marker, and only what does is swept away.
- A rank is the process that held it when its fault fired, by pid and start time.
- Whatever ends the session, an interruption or its time included, what is active is taken back first.
"""

from __future__ import annotations

import dataclasses
import math
import os
import select
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.attach import nodes, table
from chaos.attach.job import Id, Job, again, fates, find, together
from chaos.invariants.scene import ATTACHED
from chaos.plan import PlannedScenario
from chaos.report.stored import HISTORY
from chaos.runner import leaks
from chaos.runner.context import Context
from chaos.runner.desk import Desk, Sight, Stage, alive
from chaos.runner.events import Event, EventLog, merge
from chaos.runner.interrupt import Interrupts
from chaos.runner.naming import Names
from chaos.runner.wake import Wake
from injectors import signals

# How often a rank that has no process is looked for: its launcher may start it anew.
LOOK_S = 0.25


def job_of(pids: list[int]) -> Job:
    """The job that these processes are of.

    Raises:
        Refused: there is none, or it can't be attached to.
    """
    seen = table.everyone()
    return together([find(seen, pid, os.geteuid()) for pid in pids])


@dataclass
class Watched:
    """The job as it is now. `ranks`: how many it had here when it was found."""

    job: Job
    ranks: int

    def look(self) -> Job:
        """Look at its processes again."""
        self.job = again(table.below(self.job), self.job)
        return self.job

    def live(self) -> dict[int, Id]:
        """Rank -> process, of the ranks that are alive; looks again if one is missing."""
        found = alive({number: rank.id for number, rank in self.job.ranks.items()})
        if len(found) < self.ranks:
            found = alive({number: rank.id for number, rank in self.look().ranks.items()})
        return found

    def members(self) -> tuple[Id, ...]:
        """Every process of it, by pid and start time."""
        return tuple(process.id for process in self.look().members)


@dataclass
class Session:
    """A session.

    Args:
        context: the open run; its marker is on nothing of the job's.
        scenario: what is planned; its target names the job.
        folder: where the history goes.
        interrupts: keeps an interruption out of the clean-up.
        on_event: told of events as they come.
        note: told in words what was found and what became of it.

    Attributes:
        facts: what is known of the job before and after, for the report.
    """

    context: Context
    scenario: PlannedScenario
    folder: Path
    interrupts: Interrupts
    on_event: Callable[[Event], None] = lambda event: None
    note: Callable[[str], None] = lambda text: None
    facts: dict[str, Any] = field(default_factory=dict)

    def run(self) -> Path:
        """Carry out the faults; returns the history's file. Everything is taken back, whatever happened.

        Raises:
            Refused: the job is gone, or is another's.
        """
        before = job_of([pid for pid, _ in self.scenario.target["pids"]])
        self.folder.mkdir(parents=True, exist_ok=True)
        raw = self.folder / "events.jsonl"
        self._log = EventLog(raw, self.on_event)
        self._wakes = Wake()
        self._watched = Watched(before, len(before.ranks))
        self._live: dict[int, Id] = {}
        try:
            now = round(time.time(), 6)
            faults = len(self.scenario.faults)
            self._log.emit("scenario.start", scenario=self.scenario.name, faults=faults, unix_s=now)
            self._attend(before)
        finally:
            with self.interrupts.held():
                self._log.emit("scenario.end", scenario=self.scenario.name)
                self._log.close()
                self._wakes.close()
                merge(raw, self.folder / HISTORY, Names({}))
        return self.folder / HISTORY

    def _attend(self, before: Job) -> None:
        context = self.context
        began = time.monotonic()
        self._found = dataclasses.replace(nodes.look(before), run=context.run)
        sight = Sight(
            live=self._watched.live,
            first_commit_t=lambda: began,
            release=lambda fault: False,
            nodes=self._found if self._found.nodes else None,
            job=self._watched.members,
        )
        self._desk = Desk(
            self.scenario.name,
            self.scenario.faults,
            self._log,
            context.journal,
            sight,
            self._wakes.wake,
            run=context.run,
        )
        self._desk.arm()
        self._tell_start(before)
        # What is new in shared memory is the job's: it goes on.
        then = dataclasses.replace(leaks.before(context.run, context.temp, ()), started_at=math.inf)
        limit = began + float(self.scenario.bounds["run_s"] or 0.0)
        try:
            self._desk.close(self._watch(limit))
            self._settle(time.monotonic() + float(self.scenario.target["settle_s"]))
        finally:
            with self.interrupts.held():
                # Twice: one that was being injected at the first time is there at the second.
                self._desk.heal()
                self._desk.heal()
                self._tell_end(before, then)

    # -- while it goes on

    def _watch(self, limit: float) -> str:
        """Until every fault is over, or the time is, or the job is; returns which of them, in words."""
        while True:
            while self._under_way():
                if not self._goes_on():
                    return "the job has ended"
                now = time.monotonic()
                if now >= limit:
                    return f"the session's time, {self.scenario.bounds['run_s']:g} s, was over"
                self._desk.tick()
                due = self._desk.next_due()
                self._wait(min(limit, now + LOOK_S if due is None else due))
            self._desk.join()
            if not self._under_way():
                return "every fault was over"

    def _settle(self, until: float) -> None:
        """Look at the job for a while: a freeze may end it after it is over."""
        while self._goes_on() and time.monotonic() < until:
            self._wait(until)

    def _under_way(self) -> bool:
        faults = self._desk.faults.values()
        return any(f.stage in (Stage.ARMED, Stage.ACTING) or f.due is not None for f in faults)

    def _goes_on(self) -> bool:
        """Whether the job has a process left: a launcher may start its ranks anew."""
        return bool(self._live) or bool(self._watched.job.roots)

    def _wait(self, until: float) -> None:
        """Sleep until then, or until a thread calls or a rank ends."""
        if len(self._live) < self._watched.ranks:
            until = min(until, time.monotonic() + LOOK_S)
        poll = select.poll()
        poll.register(self._wakes.fd, select.POLLIN)
        open_ = [fd for who in self._live.values() if (fd := signals.open_pidfd(*who)) is not None]
        try:
            for fd in open_:
                poll.register(fd, select.POLLIN)
            poll.poll(1000.0 * max(0.0, until - time.monotonic()))
        finally:
            for fd in open_:
                os.close(fd)
        self._wakes.drain()
        self._look()

    def _look(self) -> None:
        """Tell which ranks have come and gone since the last look."""
        now = self._watched.live()
        for rank, (pid, ticks) in self._live.items():
            if now.get(rank) != (pid, ticks):
                self._log.emit("worker.exit", rank=rank, pid=pid)
        for rank, (pid, ticks) in now.items():
            if self._live.get(rank) != (pid, ticks):
                node = self._found.node_of(rank) if self._found.nodes else None
                self._log.emit("worker.start", rank=rank, pid=pid, start_ticks=ticks, node=node)
        self._live = now

    # -- what is told

    def _tell_start(self, before: Job) -> None:
        launcher = next(iter(before.roots or before.ranks.values()))
        self._log.emit(
            "target.start",
            kind=ATTACHED,
            pid=launcher.pid,
            argv=list(launcher.argv),
            nodes=[dataclasses.asdict(node) for node in self._found.nodes] or None,
        )
        self._look()
        for line in described(before):
            self.note(line)

    def _tell_end(self, before: Job, then: leaks.Before) -> None:
        self._look()
        said = fates(before.ranks, {n: r for n, r in self._watched.look().ranks.items() if n in self._live})
        self.facts |= {
            "launchers": [{"pid": one.pid, "argv": list(one.argv)} for one in before.roots],
            "world": before.world,
            "ranks": [
                {"rank": number, "pid": one.pid, "argv": list(one.argv), "afterwards": said[number]}
                for number, one in before.ranks.items()
            ],
            "not_on_this_machine": list(before.elsewhere),
        }
        for number, fate in said.items():
            self.note(f"rank {number}, pid {before.ranks[number].pid}: {fate}")
        self.note("the job's own events are not seen: what it computes is not judged")
        left = leaks.look(self.context.run, self.context.temp, (), then, (), set())
        self._log.emit(
            "leak.check", processes=left.processes, shm=left.shm, sockets=left.sockets, files=left.files
        )


def described(job: Job) -> list[str]:
    """A job in words, a line for each of its processes that matter."""
    lines = [f"launcher pid {one.pid}: {one.line}" for one in job.roots]
    lines += [f"rank {number} of {job.world}, pid {one.pid}: {one.line}" for number, one in job.ranks.items()]
    if job.elsewhere:
        lines.append(f"not on this machine: rank {', '.join(map(str, job.elsewhere))}")
    return lines
