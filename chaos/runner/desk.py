"""The faults of one scenario: who fires which, when, and what takes it back.

Rules kept here:

- The undo record is on disk before the fault is injected.
- A fault fires once. The engine decides; an agent only asks.
- A fault that an agent stands at is injected before the agent goes on; its proof is looked for afterwards.
- Every stage leaves an event: armed, reached, fired, verified, undone, undo_verified, or failed with the
  reason.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, Protocol

from chaos.plan import PlannedFault
from chaos.runner.events import EventLog
from injectors import roles, signals
from injectors.agent_server import Reached, Report
from injectors.catalogue import CATALOGUE
from injectors.fault import Channel, Evidence, Fault, FaultError, Node, Place, UndoRecord, Victim

# A fault without a duration is healed this long after it fired, when the scenario states no recovery bound.
HEAL_S = 10.0
# A victim that is not there yet (its rank is being replaced) is looked for again after this time, then after
# twice as long, and so on: a rank that never returns must not cost the job a processor.
RETRY_S, LONGEST_RETRY_S = 0.002, 0.1


class Stage(Enum):
    ARMED = auto()
    ACTING = auto()
    ACTIVE = auto()
    OVER = auto()


@dataclass
class Armed:
    """One planned fault and how far it has come. `due`: when the engine must act on it next, monotonic
    seconds."""

    planned: PlannedFault
    fault: Fault
    stage: Stage = Stage.ARMED
    victim: Victim | Place | None = None
    ranks: tuple[int, ...] = ()
    record: UndoRecord | None = None
    fired_t: float | None = None
    due: float | None = None
    why_not: str = ""
    retry_s: float = RETRY_S

    @property
    def by_engine(self) -> bool:
        """Whether the engine fires it by the clock, without an agent."""
        return "after_s" in self.planned.when

    @property
    def of_nodes(self) -> bool:
        """Whether it acts on nodes and what is between them, and not on one process."""
        return self.fault.aims_at == "nodes"


class Journal(Protocol):
    """What the desk needs of the undo journal."""

    def undo(self, key: str, record: dict[str, Any]) -> None: ...
    def undone(self, key: str, by: str) -> None: ...


class Nodes(Protocol):
    """What the desk needs of the cluster."""

    run: str

    def all(self) -> tuple[Node, ...]: ...
    def node_of(self, rank: int) -> int | None: ...
    def ranks_on(self, index: int) -> list[int]: ...
    def bring_back(self, index: int) -> Evidence: ...


@dataclass
class Sight:
    """What the desk can see of the job.

    Attributes:
        live: rank -> (pid, start time) of the ranks alive, as of now.
        first_commit_t: when every rank had committed its first step, monotonic seconds; None before that.
        release: ends an agent's wait early (`AgentServer.send_undo`).
        nodes: the cluster's nodes, None without a cluster.
        job: pid and start time of every process of a job that the tool has not started; it bears no marker.
    """

    live: Callable[[], dict[int, tuple[int, int]]]
    first_commit_t: Callable[[], float | None]
    release: Callable[[str], bool]
    nodes: Nodes | None = None
    job: Callable[[], tuple[tuple[int, int], ...]] = tuple


@dataclass
class Desk:
    """Handles the faults of one scenario.

    Args:
        scenario: its name, part of the journal's keys.
        planned: its faults.
        log: where events go.
        journal: the undo journal.
        sight: what can be seen of the job.
        wake: called when the main loop must look at deadlines again.
        heal_s: how long a fault without a duration lasts.
        run: the run's marker, which labels what faults create.
        work: the job's own folder.
    """

    scenario: str
    planned: list[PlannedFault]
    log: EventLog
    journal: Journal
    sight: Sight
    wake: Callable[[], None]
    heal_s: float = HEAL_S
    by_line: bool = False
    run: str = ""
    work: str = ""
    faults: dict[str, Armed] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _threads: list[threading.Thread] = field(default_factory=list)
    _healed: bool = False

    def arm(self) -> None:
        """Take up every fault."""
        for planned in self.planned:
            fault = CATALOGUE[planned.name].from_params(planned.params)
            self.faults[planned.id] = Armed(planned, fault)
            self._say("armed", self.faults[planned.id], where=planned.where, when=planned.when)

    def for_agents(self) -> list[dict[str, Any]]:
        """The faults that agents look out for, as agent.json has them."""
        return [
            {
                "id": f.planned.id,
                "name": f.planned.name,
                # A node has no agent of its own: the one of rank 0 stands at the moment.
                "where": {"rank": 0} if "node" in f.planned.where else f.planned.where,
                "when": f.planned.when,
                "inside": f.planned.inside,
                "params": f.planned.params,
                "seed": f.planned.seed,
            }
            for f in self.faults.values()
            if not f.by_engine and not self._on_line(f)
        ]

    def _on_line(self, armed: Armed) -> bool:
        """Whether a line on stdout fires it: the step is known from there, and no phase is asked for."""
        return self.by_line and not armed.planned.inside and set(armed.planned.when) == {"step"}

    # -- from the agents, each in its connection's thread

    def on_reached(self, reached: Reached) -> str:
        """An agent stands at a fault's point. Answers go or skip."""
        armed = self.faults.get(reached.fault)
        if armed is None:
            return "skip"
        live = self.sight.live()
        victim: Victim | Place | None
        if "node" in armed.planned.where:
            victim = self._place(armed, armed.planned.where["node"], reached)
        else:
            rank = roles.resolve(armed.planned.where, reached, {r: pid for r, (pid, _) in live.items()})
            if armed.of_nodes:
                victim = self._place_of_rank(armed, rank, reached)
            else:
                victim = self._victim(armed, rank, reached, live)
        if victim is None or not self._claim(armed):
            return "skip"
        at = {"phase": reached.phase, "at_event": reached.event, "collective": reached.collective}
        done = self._act(self._inject, armed, victim, reached.channel, at)
        # An agent that is told "go" acts: it must not where the fault was refused.
        return "go" if done and armed.fired_t is not None else "skip"

    def _place_of_rank(self, armed: Armed, rank: int | None, reached: Reached | None) -> Place | None:
        node = None if rank is None or self.sight.nodes is None else self.sight.nodes.node_of(rank)
        if node is None:
            armed.why_not = f"rank {rank} was on no node"
            return None
        return self._place(armed, node, reached, rank)

    def _place(
        self, armed: Armed, node: int, reached: Reached | None, rank: int | None = None
    ) -> Place | None:
        if self.sight.nodes is None:
            armed.why_not = "the target has no nodes"
            return None
        armed.ranks = tuple(self.sight.nodes.ranks_on(node))
        return Place(
            nodes=self.sight.nodes.all(),
            aimed=(node,),
            run=self.sight.nodes.run,
            fault=armed.planned.id,
            rank=rank,
            generation=reached.generation if reached else None,
            step=reached.step if reached else None,
        )

    def _victim(
        self, armed: Armed, rank: int | None, reached: Reached, live: dict[int, tuple[int, int]]
    ) -> Victim | None:
        if rank is None:
            armed.why_not = f"at {reached.event or reached.phase} the role belonged to no rank"
            return None
        if rank == reached.rank:
            return reached.victim()
        if armed.planned.inside:
            armed.why_not = f"rank {rank} was not the one that reached the point"
            return None
        if rank not in live:
            armed.why_not = f"rank {rank} had no living process at {reached.event or reached.phase}"
            return None
        pid, ticks = live[rank]
        return Victim(
            pid=pid,
            start_ticks=ticks,
            rank=rank,
            generation=reached.generation,
            step=reached.step,
            fault=reached.fault,
        )

    def on_report(self, report: Report) -> None:
        """Anything an agent says on its own account."""
        armed = self.faults.get(report.fault or "")
        if armed is None:
            return
        if report.op == "undone":
            self._over(armed, report.evidence or Evidence("the agent says so", True, "agent"))
        elif report.op in ("failed", "error"):
            what = report.evidence.what if report.evidence else str(report.data.get("error"))
            self._say("failed", armed, detail=what)

    # -- from the main loop

    def next_due(self) -> float | None:
        """When `tick` must be called next, monotonic seconds; None if nothing is planned by time."""
        with self._lock:
            self._schedule()
            return min((f.due for f in self.faults.values() if f.due is not None), default=None)

    def tick(self) -> None:
        """Fire what is due by the clock and take back what has lasted its time."""
        now = time.monotonic()
        with self._lock:
            self._schedule()
            due = [f for f in self.faults.values() if f.due is not None and f.due <= now]
        for armed in due:
            if armed.stage is Stage.ARMED:
                self._fire_by_clock(armed)
            elif armed.stage is Stage.ACTIVE:
                armed.due = None
                self._spawn(self._take_back, armed)

    def on_line_step(self, step: int) -> None:
        """A line on stdout said that `step` is the one in progress."""
        for armed in self.faults.values():
            if self._on_line(armed) and armed.stage is Stage.ARMED and step >= armed.planned.when["step"]:
                self._fire_by_clock(armed)

    def _schedule(self) -> None:
        for armed in self.faults.values():
            if armed.stage is Stage.ARMED and armed.due is None and armed.by_engine:
                start = self._clock_start(armed)
                if start is not None:
                    armed.due = start + armed.planned.when["after_s"]

    def _clock_start(self, armed: Armed) -> float | None:
        after = armed.planned.when.get("after_fault")
        return self.sight.first_commit_t() if after is None else self.faults[after].fired_t

    def _fire_by_clock(self, armed: Armed) -> None:
        victim = self._due_victim(armed)
        if victim is None:
            armed.due = time.monotonic() + armed.retry_s
            armed.retry_s = min(2 * armed.retry_s, LONGEST_RETRY_S)
            return
        if not self._claim(armed):
            return
        armed.due = None
        # In a thread: looking for the proof may take as long as a process takes to end.
        self._spawn(self._inject, armed, victim, None, {})

    def _due_victim(self, armed: Armed) -> Victim | Place | None:
        """Whom a fault that is due by the clock is for; None: nobody yet, the reason is noted."""
        where = armed.planned.where
        if "node" in where:
            return self._place(armed, where["node"], None)
        live = self.sight.live()
        rank = where.get("rank")
        if rank is None and where.get("role") == "lowest_live":
            rank = min(live, default=None)
        if rank is None or rank not in live:
            armed.why_not = (
                f"rank {rank} had no living process" if rank is not None else "the role belonged to no rank"
            )
            return None
        if armed.of_nodes:
            return self._place_of_rank(armed, rank, None)
        pid, ticks = live[rank]
        return Victim(pid=pid, start_ticks=ticks, rank=rank, fault=armed.planned.id)

    # -- the acts

    def _claim(self, armed: Armed) -> bool:
        with self._lock:
            if armed.stage is not Stage.ARMED:
                return False
            armed.stage = Stage.ACTING
            return True

    def _act(self, act: Callable[..., None], armed: Armed, *args: Any) -> bool:
        """Carry out an act; an exception in the fault's code is its failure, and what it did is taken back.

        Returns:
            Whether no exception was raised.
        """
        try:
            act(armed, *args)
        except Exception as error:
            what = f"its own code failed: {type(error).__name__}: {error}"
            self._say("failed", armed, detail=what, traceback=traceback.format_exc())
            with self._lock:
                again = armed.stage is Stage.ACTING and armed.record is not None
                # Without another try at it, the journal's record is what takes it back.
                armed.stage, armed.due = Stage.ACTIVE if again else Stage.OVER, None
            if again:
                self._act(self._take_back, armed)
            self._mark_healed()
            self.wake()
            return False
        return True

    def _inject(
        self, armed: Armed, victim: Victim | Place, channel: Channel | None, at: dict[str, Any]
    ) -> None:
        if isinstance(victim, Victim):
            victim = replace(victim, run=self.run, work=self.work, job=self.sight.job())
        armed.victim = victim
        self._say("reached", armed, **at)
        try:
            armed.record = armed.fault.undo_record(victim)
        except FaultError as error:
            self._say("failed", armed, detail=f"refused: {error}")
            armed.stage = Stage.OVER
            return
        if armed.record is not None:
            self.journal.undo(self._key(armed), armed.record.as_dict())
        # The clock of every recovery starts here, before the act: never after it, which would flatter.
        armed.fired_t = time.monotonic()
        line: Channel | None = channel if armed.planned.inside else None
        if isinstance(victim, Place):
            line = _Bringer(self, victim)
        fired = armed.fault.inject(victim, line)
        if not fired.proven:
            self._say("failed", armed, detail=fired.what, evidence=fired.as_dict())
            armed.stage = Stage.OVER
            return
        if channel is not None and not armed.planned.inside:
            # The agent goes on before the proof is looked for: the proof may need it to (a signal's handler).
            answer = getattr(channel, "answer", None)
            if answer is not None:
                answer("go")
        if armed.fault.proof_comes_later:
            self._say("fired", armed, t=armed.fired_t, evidence=fired.as_dict(), **at)
            # Beside: this thread is the victim's line, and what it does next may be what the proof needs.
            self._spawn(self._prove, armed, victim, fired)
        else:
            # Proof first, words later: a runtime that fences a frozen rank at once leaves a moment to see it.
            seen = armed.fault.verify(victim, fired)
            self._say("fired", armed, t=armed.fired_t, evidence=fired.as_dict(), **at)
            self._say_seen(armed, seen)
        lasts = armed.record is not None
        if lasts or not armed.fault.proof_comes_later:
            armed.stage = Stage.ACTIVE if lasts else Stage.OVER
        if lasts:
            armed.due = armed.fired_t + (armed.planned.duration_s or self.heal_s)
        self._mark_healed()
        self.wake()

    def _prove(self, armed: Armed, victim: Victim | Place, fired: Evidence) -> None:
        fired = armed.fault.follow(victim, fired)
        self._say_seen(armed, armed.fault.verify(victim, fired))
        if armed.record is None:
            armed.stage = Stage.OVER
            self._mark_healed()
            self.wake()

    def _say_seen(self, armed: Armed, seen: Evidence) -> None:
        if seen.proven:
            self._say("verified", armed, evidence=seen.as_dict())
        else:
            self._say("failed", armed, detail=f"not verified: {seen.what}", evidence=seen.as_dict())

    def _take_back(self, armed: Armed) -> None:
        if armed.record is None or armed.stage is not Stage.ACTIVE:
            return
        evidence = armed.fault.undo(armed.record, self.sight.release)
        if evidence.proven:
            self._over(armed, evidence)
        else:
            self._say("failed", armed, detail=f"not undone: {evidence.what}", evidence=evidence.as_dict())

    def take_back_on(self, node: int) -> None:
        """Take back every fault that is active on a node or between it and others."""
        for armed in list(self.faults.values()):
            if isinstance(armed.victim, Place) and node in armed.victim.aimed:
                self._act(self._take_back, armed)

    def _over(self, armed: Armed, evidence: Evidence) -> None:
        with self._lock:
            if armed.stage is not Stage.ACTIVE or armed.record is None:
                return
            armed.stage, armed.due = Stage.OVER, None
        self._say("undone", armed, evidence=evidence.as_dict())
        self.journal.undone(self._key(armed), "engine")
        seen = armed.fault.verify_undone(armed.record)
        stage = "undo_verified" if seen.proven else "failed"
        self._say(
            stage, armed, evidence=seen.as_dict(), detail=None if seen.proven else f"still there: {seen.what}"
        )
        self._mark_healed()

    def _mark_healed(self) -> None:
        with self._lock:
            if self._healed or any(f.stage is not Stage.OVER for f in self.faults.values()):
                return
            self._healed = True
        self.log.emit("heal.start")

    def heal(self) -> None:
        """Take back everything that is still active; returns when that is done."""
        for armed in list(self.faults.values()):
            if armed.stage is Stage.ACTIVE:
                self._act(self._take_back, armed)
        self.join()

    def join(self) -> None:
        """Wait for proofs and undos under way."""
        for thread in list(self._threads):
            thread.join(15.0)

    def close(self, ended: str) -> None:
        """The target has ended: say of each fault that never fired why.

        Args:
            ended: how the target ended, for the reason.
        """
        self.heal()
        for armed in self.faults.values():
            if armed.stage is Stage.ARMED:
                why = f"; {armed.why_not}" if armed.why_not else ""
                self._say(
                    "failed", armed, detail=f"its moment never came: {moment(armed.planned)}{why}; {ended}"
                )

    # -- helpers

    def _key(self, armed: Armed) -> str:
        return f"{self.scenario}/{armed.planned.id}"

    def _spawn(self, act: Callable[..., None], armed: Armed, *args: Any) -> None:
        thread = threading.Thread(target=self._act, args=(act, armed, *args), name=act.__name__, daemon=True)
        # Only those that still run are worth keeping: a soak has hundreds.
        self._threads = [t for t in self._threads if t.is_alive()] + [thread]
        thread.start()

    def _say(self, stage: str, armed: Armed, t: float | None = None, **fields: Any) -> None:
        victim = armed.victim
        about: dict[str, Any] = {"fault": armed.planned.id, "name": armed.planned.name}
        if isinstance(victim, Place):
            about |= {
                "node": victim.aimed[0] if len(victim.aimed) == 1 else None,
                "nodes": list(victim.aimed),
                "ranks": list(armed.ranks),
                "rank": victim.rank if victim.rank is not None else next(iter(armed.ranks), None),
                "step": victim.step,
                "generation": victim.generation,
            }
        elif victim is not None:
            about |= {
                "rank": victim.rank,
                "pid": victim.pid,
                "step": victim.step,
                "generation": victim.generation,
            }
        self.log.emit(f"fault.{stage}", t=t, **about, **fields)


@dataclass(frozen=True)
class _Bringer:
    """The engine as the other end of a fault of nodes: what only it can do is to bring a node back."""

    desk: Desk
    place: Place

    def act(self, timeout_s: float = 10.0) -> Evidence:
        """Bring every node that is meant back: faults on it end, it is there, its launcher runs."""
        nodes = self.desk.sight.nodes
        assert nodes is not None
        told = []
        for index in self.place.aimed:
            self.desk.take_back_on(index)
            told.append(nodes.bring_back(index))
        return Evidence(
            "; ".join(one.what for one in told),
            bool(told) and all(one.proven for one in told),
            data={"back": [dict(one.data) for one in told if one.data]},
        )


def moment(planned: PlannedFault) -> str:
    """A fault's moment in words: `step 12, backward, rank 2`."""
    when, words = planned.when, []
    for key, value in when.items():
        match key:
            case "step" | "occurrence":
                words.append(f"{key} {value}")
            case "collective":
                words.append("collective " + " ".join(f"{k} {v}" for k, v in value.items()))
            case "after_s":
                words.append(f"{value:g} s")
            case "after_fault":
                words.append(f"after {value}")
            case _:
                words.append(str(value))
    words += [value if key == "role" else f"{key} {value}" for key, value in planned.where.items()]
    return ", ".join(words)


def alive(ranks: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Those whose process runs."""
    return {rank: (pid, ticks) for rank, (pid, ticks) in ranks.items() if signals.is_alive(pid, ticks)}
