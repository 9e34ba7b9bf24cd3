"""One start of a target, with or without faults, from launch to merged history."""

from __future__ import annotations

import dataclasses
import os
import re
import select
import shutil
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.clusters import processes
from chaos.plan import PlannedFault, PlannedScenario
from chaos.report.stored import HISTORY
from chaos.runner import leaks, stacks
from chaos.runner.context import SHARED, Context
from chaos.runner.desk import HEAL_S, Desk, Sight
from chaos.runner.events import Event, EventLog, Tail, merge
from chaos.runner.fielded import Field
from chaos.runner.interrupt import Interrupted, Interrupts
from chaos.runner.naming import Inner, Names
from chaos.runner.ranks import Ranks
from chaos.runner.wake import Wake
from chaos.targets.base import End, Launch, Running, Target
from injectors import boot
from injectors.agent_server import AgentServer, Report

# The live view is fed this often, the run bound checked; everything else wakes the loop by itself.
LOOK_S = 0.25
# While a fault waits for the first committed step, the events file is looked at this often.
EDGE_S = 0.02


@dataclass
class Attempt:
    """One start of a target.

    Args:
        context: the run.
        scenario: what is planned.
        target: what is started.
        folder: where history and output go, in the run's folder.
        faults: what to inject; none for a twin.
        seed: the training's seed, the same for a scenario and its twin.
        interrupts: keeps an interruption out of the clean-up.
        on_event: told of events as they come, for the live view.
    """

    context: Context
    scenario: PlannedScenario
    target: Target
    folder: Path
    faults: list[PlannedFault]
    seed: int
    interrupts: Interrupts
    on_event: Callable[[Event], None] = lambda event: None
    name: str = ""
    left: leaks.Left | None = None
    end: End | None = None
    timed_out: bool = False
    _ranks: Ranks = field(default_factory=Ranks)
    _inner_pids: dict[Inner, int] = field(default_factory=dict)
    _lines: list[Tail] = field(default_factory=list)
    _untold: deque[Event] = field(default_factory=deque)
    _field: Field | None = None

    def run(self) -> Path:
        """Run it to its end; returns the history's file. The target is gone afterwards, whatever happened.

        Raises:
            TargetFailed: it could not be started.
        """
        self.name = self.name or self.scenario.name
        self.folder.mkdir(parents=True, exist_ok=True)
        raw = self.folder / "events.jsonl"
        self._log = EventLog(raw, self.on_event)
        self._tail = Tail(raw)
        self._wakes = Wake()
        try:
            # The only word of the time of day: every other event has the monotonic clock alone.
            now = round(time.time(), 6)
            self._log.emit("scenario.start", scenario=self.name, faults=len(self.faults), unix_s=now)
            self._run()
        finally:
            with self.interrupts.held():
                self._log.emit("scenario.end", scenario=self.name)
                self._log.close()
                self._wakes.close()
                merge(raw, self.folder / HISTORY, Names(self._inner_pids, self._ranks.own_pids))
        return self.folder / HISTORY

    def _run(self) -> None:
        context = self.context
        socket = context.temp / f"{len(os.listdir(context.temp))}.sock"
        tmp, work = context.sub("tmp", self.name), context.sub("work", self.name)
        by_line = (self.scenario.target.get("step") or {}).get("rule") == "stdout"
        self._server = AgentServer(socket, self._reached, self._reported)
        self._field = self._make_field()
        sight = Sight(self._live, self._first_commit_t, self._server.send_undo, self._field)
        heal_s = self.scenario.bounds.get("recover_s") or HEAL_S
        self._desk = Desk(
            self.name,
            self.faults,
            self._log,
            context.journal,
            sight,
            self._wakes.wake,
            heal_s,
            by_line=by_line,
            run=context.run,
            work=str(work),
        )
        self._desk.arm()
        self.target.prepare()
        self._folders = (tmp, context.temp / SHARED)
        then = leaks.before(context.run, context.temp, self._folders)
        self._server.start()
        running: Running | None = None
        try:
            if self._field is not None:
                self._field.open()
            running = self._start(socket, tmp, work)
            try:
                self._watch(running)
            except BaseException as problem:
                if not isinstance(problem, (Interrupted, KeyboardInterrupt)):
                    self._dump_stacks()  # a deadline of somebody else's: a test runner's, say
                raise
            self._settle(running)
        finally:
            # Whatever happened above, an interruption included: faults first, then the target, then the line.
            with self.interrupts.held():
                self._desk.heal()
                if running is not None:
                    running.stop()
                self._server.stop()
                nodes_left = self._field.close() if self._field is not None else []
                shutil.rmtree(work, ignore_errors=True)
                self._check_leaks(then, nodes_left)
                shutil.rmtree(tmp, ignore_errors=True)

    def _make_field(self) -> Field | None:
        if not self.scenario.target.get("cluster"):
            return None
        made = Field(
            self.context,
            self.name,
            self.scenario.target,
            self._ranks.nodes,
            self.folder,
            (self.target.setting.folder, Path.cwd()),
            self._wakes.wake,
        )
        self._ranks.own_pids = made.cluster.own_pids
        return made

    # -- start

    def _start(self, socket: Path, tmp: Path, work: Path) -> Running:
        digest = bool(self.scenario.target.get("digest", True))
        launch = Launch(self._environment(socket, tmp), self._log.path, self.seed, work, -1, -1, digest)
        if self._field is None:
            running = self._start_here(launch)
            logs = [self.folder / "stdout.log"]
        else:
            running = self._field.man(self.target, launch, lambda node: self._environment(socket, tmp, node))
            logs = [self._field.logs(node.index)[0] for node in self._field.all()]
        self._log.emit(
            "target.start",
            pid=running.pid,
            argv=running.argv,
            kind=self.scenario.target["kind"],
            restart=self.scenario.target.get("restart", self.target.restart),
            contained=getattr(running, "contained", None),
            nodes=[dataclasses.asdict(node) for node in self._field.all()] if self._field else None,
        )
        if self._desk.by_line:
            self._lines = [Tail(path) for path in logs]
        return running

    def _start_here(self, launch: Launch) -> Running:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        out, err = (os.open(self.folder / name, flags, 0o644) for name in ("stdout.log", "stderr.log"))
        try:
            return self.target.start(dataclasses.replace(launch, stdout=out, stderr=err))
        finally:
            os.close(out)
            os.close(err)

    def _environment(self, socket: Path, tmp: Path, node: int | None = None) -> dict[str, str]:
        """What a launcher starts with; the agent's configuration, a file for each node, is written here."""
        env = {**self.context.env, "TMPDIR": str(tmp)}
        if node is not None:
            env[processes.NODE] = str(node)
        if not self.faults and self.target.step_source != "agent":
            return env
        config = socket.with_suffix(".json" if node is None else f".{node}.json")
        boot.write_config(config, self._agent_config(socket, node))
        return boot.environment(config, env)

    def _agent_config(self, socket: Path, node: int | None) -> dict[str, Any]:
        target = self.scenario.target
        agent = self.target.step_source == "agent"
        rule = {key: value for key, value in (target.get("step") or {}).items() if value is not None}
        return {
            "protocol": boot.PROTOCOL,
            "run": self.context.run,
            "socket": str(socket),
            "work": self._desk.work,
            "events": str(self._log.path),
            "observe": agent,
            "digest": bool(target.get("digest", True)) and agent,
            "step_source": self.target.step_source,
            "step_rule": rule,
            "t0": time.monotonic(),
            **({} if node is None else {"node": node}),
            "faults": self._desk.for_agents(),
        }

    # -- while it runs

    def _watch(self, running: Running) -> None:
        """Until the target's end or the run's bound. Sleeps; deadlines, agents and the target's end wake
        it."""
        limit = time.monotonic() + float(self.scenario.bounds["run_s"] or 60.0)
        poll = select.poll()
        poll.register(running.end_fd, select.POLLIN)
        poll.register(self._wakes.fd, select.POLLIN)
        while True:
            self._look()
            self._desk.tick()
            if self._field is not None:
                self._field.serve()
            self.end = running.poll()
            if self.end is not None:
                return
            now = time.monotonic()
            if now >= limit:
                self.timed_out = True
                self._dump_stacks()
                return
            poll.poll(1000.0 * max(0.0, min(self._pause(now), limit - now)))
            self._wakes.drain()

    def _pause(self, now: float) -> float:
        due = self._desk.next_due()
        pause = LOOK_S if due is None else min(LOOK_S, due - now)
        waits_for_edge = bool(self._lines) or (
            self._first_commit_t() is None and any("after_s" in f.when for f in self.faults)
        )
        return min(pause, EDGE_S) if waits_for_edge else pause

    def _look(self) -> None:
        self._look_quietly()
        while self._untold:
            self.on_event(self._untold.popleft())
        for lines in self._lines:
            self._read_lines(lines)

    def _read_lines(self, lines: Tail) -> None:
        """The step rule `stdout`: a line names the step that is done, so the next one is in progress."""
        pattern = re.compile(self.scenario.target["step"]["pattern"])
        for line in lines.lines():
            match = pattern.search(line.decode(errors="replace"))
            if match is None:
                continue
            groups = match.groupdict()
            step = int(groups.get("step") or match.group(1))
            rank = int(groups["rank"]) if groups.get("rank") else None
            # A line without a rank speaks for the whole job.
            for each in range(self.scenario.target["world"]) if rank is None else (rank,):
                self._log.emit("step.commit", rank=each, step=step)
            self._server.send_step(step + 1, rank)
            self._desk.on_line_step(step + 1)

    def _reached(self, reached: Any) -> str:
        self._look_quietly()
        return self._desk.on_reached(reached)

    def _look_quietly(self) -> None:
        """Follow the job without a word: whoever waits for the answer must not wait for a terminal."""
        for event in self._tail.events():
            self._ranks.feed(event)
            if event.get("source") != "engine":
                self._untold.append(event)

    def _reported(self, report: Report) -> None:
        if report.op == "hello":
            inner = processes.inner_pid(report.pid)
            if inner is not None and inner != report.pid:
                self._inner_pids[self._node_of(report.pid), inner, report.start_ticks] = report.pid
            self._log.emit("process.seen", pid=report.pid, start_ticks=report.start_ticks, rank=report.rank)
        self._desk.on_report(report)
        self._wakes.wake()

    def _live(self) -> dict[int, tuple[int, int]]:
        self._look_quietly()
        found: dict[int, tuple[int, int]] = {}
        for rank, (inner, ticks) in list(self._ranks.inner.items()):
            pid = self._outer(inner, ticks, self._ranks.nodes.get(rank))
            if pid is not None:
                found[rank] = (pid, ticks)
        for rank, pid in list(self._ranks.holders.items()):
            holder = self._holder(rank, pid)
            if holder is not None:
                found[rank] = holder
        for rank in self._server.live:
            victim = self._server.victim(rank)
            if rank not in found and victim is not None:
                found[rank] = (victim.pid, victim.start_ticks)
        return {rank: who for rank, who in found.items() if processes.is_alive(*who)}

    def _holder(self, rank: int, pid: int) -> tuple[int, int] | None:
        """The process that the runtime says holds a rank, by the pid that it has out here."""
        node = self._ranks.nodes.get(rank)
        known = self._ranks.ticks.get((node, pid))
        if self._ranks.own_pids:
            outer = None if known is None else self._outer(pid, known, node)
            return None if outer is None or known is None else (outer, known)
        process = processes.read(pid)
        if process is None or process.ended or known not in (None, process.start_ticks):
            return None
        return pid, process.start_ticks

    def _outer(self, inner: int, ticks: int, node: int | None) -> int | None:
        """The pid out here of a process that an agent named by its pid in there; the start time is the same
        in both."""
        known = self._inner_pids.get((node, inner, ticks))
        if known is not None and processes.is_alive(known, ticks):
            return known
        for process in processes.marked(self.context.run):
            # Processes of two nodes may have the same pid inside and be started in the same tick.
            if (
                process.start_ticks == ticks
                and processes.inner_pid(process.pid) == inner
                and node in (None, self._node_of(process.pid))
            ):
                self._inner_pids[node, inner, ticks] = process.pid
                return process.pid
        return None

    def _node_of(self, pid: int) -> int | None:
        """The node that a process of a strange target is on; None without a cluster."""
        return None if self._field is None else processes.node_of(pid)

    def _first_commit_t(self) -> float | None:
        if len(self._ranks.committed) < int(self.scenario.target["world"]):
            return None
        return self._ranks.first_commit_t

    def _dump_stacks(self) -> None:
        """Where every rank is, while it still is."""
        stacks.dump(self._live(), self._stderr_of, self.folder / "stacks.txt")

    def _stderr_of(self, rank: int) -> Path:
        if self._field is None:
            return self.folder / "stderr.log"
        return self._field.logs(self._ranks.nodes.get(rank, 0))[1]

    # -- the end

    def _settle(self, running: Running) -> None:
        self._look()
        how = "the tool stopped the target at its run bound" if self.timed_out else "the target ended"
        if self.end is not None:
            how = f"the target ended with {described(self.end)}"
        end = self.end or End(None, None)
        self._log.emit(
            "target.exit",
            pid=running.pid,
            code=end.code,
            signal=end.signal,
            expected=self.timed_out,
            timed_out=self.timed_out or None,
            detail=f"stopped after {self.scenario.bounds['run_s']:g} s" if self.timed_out else None,
        )
        if not self.timed_out:
            self._server.settle()  # the last fault may have ended the target before its proof was read
        self._desk.close(how)
        if not self.timed_out:
            for orphan in running.orphans():
                self._log.emit("orphan.seen", pid=orphan.pid, argv=" ".join(processes.argv(orphan.pid)))

    def _check_leaks(self, then: leaks.Before, nodes_left: list[str]) -> None:
        # Pids of a node's own say nothing out here; what is left of a container is found with it.
        own = self._ranks.own_pids
        known = set() if own else {(pid, ticks) for (_, pid), ticks in self._ranks.ticks.items()}
        ignore = self.scenario.target.get("ignore_files") or ()
        left = leaks.look(self.context.run, self.context.temp, self._folders, then, ignore, known)
        self.left = left
        self._log.emit(
            "leak.check",
            processes=left.processes,
            shm=left.shm,
            sockets=left.sockets,
            files=left.files,
            nodes=nodes_left if self._field is not None else None,
        )
        # What is left is on record; it must not be there for the next scenario.
        for found in left.processes:
            process = processes.read(found["pid"])
            if process is not None and process.start_ticks == found["start_ticks"]:
                processes.kill(process)


def described(end: End) -> str:
    """An end in words."""
    return f"signal {end.signal}" if end.code is None else f"exit code {end.code}"
