"""What a running scenario is doing now, folded from its events: ranks, faults, the recovery under way. Pure.

Rules kept here:

- Events of the job arrive late and in batches, those of the engine at once: what counts is when an event
  happened, not when it came.
- A process speaks for its rank only while it holds it.
- An event that is not understood changes nothing: a view must never stop a run.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from chaos.records import float_of, int_of, list_of, text_of, time_of
from chaos.recoveries import PHASES

KEPT_MARKS = 120


class State(StrEnum):
    """What a rank does, the most troubled first."""

    DEAD = "dead"
    STOPPED = "stopped"
    RECOVERING = "recovering"
    STARTING = "starting"
    RUNNING = "running"
    FINISHED = "finished"


class Mark(StrEnum):
    """One thing in a rank's strip."""

    STEP = "|"
    AGAIN = "+"
    ADOPTED = "="
    BACK = "<"
    FAULT = "!"
    GONE = "x"
    NEW = "^"


LEGEND = {
    Mark.STEP: "step",
    Mark.AGAIN: "again",
    Mark.ADOPTED: "from a peer",
    Mark.BACK: "taken back",
    Mark.FAULT: "fault",
    Mark.GONE: "gone",
    Mark.NEW: "new",
}
# What a proven fault has made of its rank, by the kind of recovery that it asks for.
STRUCK = {"crash": State.DEAD, "stopped": State.STOPPED}
# Which phase an event begins.
BEGINS = {
    "recovery.detect": "fence",
    "recovery.fence": "fence",
    "recovery.regroup": "regroup",
    "generation.open": "regroup",
    "recovery.transfer": "transfer",
    "state.send": "transfer",
    "recovery.resume": "resume",
}


@dataclass
class Lane:
    """One rank. `step`: the last that it committed, -1 before the first."""

    rank: int
    state: State = State.STARTING
    step: int = -1
    generation: int | None = None
    pid: int | None = None
    node: int | None = None
    marks: list[tuple[float, Mark]] = field(default_factory=list)

    def mark(self, t: float, mark: Mark) -> None:
        """Put a mark where it belongs in time; the oldest make room."""
        insort(self.marks, (t, mark), key=lambda entry: entry[0])
        del self.marks[:-KEPT_MARKS]

    @property
    def strip(self) -> str:
        """The marks, oldest first."""
        return "".join(mark for _, mark in self.marks)


@dataclass
class FaultNow:
    """One planned fault and how far it has come.

    Attributes:
        expects: the kind of recovery that it asks for; None: none.
        lasts: it goes on until it is undone.
        stage: planned, armed, reached, fired, verified, undone, undo_verified or failed.
    """

    id: str
    name: str
    moment: str = ""
    expects: str | None = None
    lasts: bool = False
    stage: str = "planned"
    ranks: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()

    @property
    def active(self) -> bool:
        """It has fired and is not over yet."""
        return self.lasts and self.stage in ("fired", "verified")


@dataclass
class Recovering:
    """A recovery under way: since when (monotonic seconds), of whom, in which phase.

    `above`: the highest step committed before; a job that reports no recoveries is back with the next one.
    """

    since_t: float
    above: int
    ranks: tuple[int, ...] = ()
    kind: str | None = None
    phase: str = PHASES[0]


@dataclass(frozen=True)
class Recovered:
    """The last recovery that is over; seconds."""

    ranks: tuple[int, ...]
    total_s: float | None
    phases: Mapping[str, float]


@dataclass
class Now:
    """A scenario while it runs.

    Args:
        name: of the scenario.
        steps: how many a complete run commits, 0 if unknown.
        world: ranks, 0 if unknown.
        faults: what is planned, in the plan's order.
    """

    name: str
    steps: int = 0
    world: int = 0
    faults: Sequence[FaultNow] = ()
    lanes: dict[int, Lane] = field(default_factory=dict)
    step: int = -1
    generation: int = 1
    recovering: Recovering | None = None
    recovered: Recovered | None = None
    reports_recoveries: bool = False

    def __post_init__(self) -> None:
        self._faults = {fault.id: fault for fault in self.faults}
        for rank in range(self.world):
            self._lane(rank)

    @property
    def fault(self) -> FaultNow | None:
        """The fault to look at: one that lasts, else the one being recovered from, else the next one."""
        faults = list(self._faults.values())
        fired = [fault for fault in faults if fault.stage in ("fired", "verified")]
        waiting = [fault for fault in faults if fault.stage in ("planned", "armed", "reached")]
        lasting = [fault for fault in fired if fault.active]
        if lasting or (self.recovering and fired):
            return (lasting or fired)[-1]
        return next(iter(waiting), faults[-1] if faults else None)

    def feed(self, event: Mapping[str, object]) -> None:
        """Take in one event, in the order in which it came."""
        name, rank = text_of(event, "event") or "", int_of(event, "rank")
        kind, _, stage = name.partition(".")
        if kind == "fault":
            self._fault(stage, event)
        elif name == "recovery.done":
            self._done(event)
        else:
            self._job(name, event)
            if rank is not None and rank >= 0:
                self._rank(name, self._lane(rank), event)
            if self.recovering is not None and name in BEGINS:
                self.recovering.phase = BEGINS[name]

    # -- the job

    def _job(self, name: str, event: Mapping[str, object]) -> None:
        match name:
            case "job.start":
                for rank in range(min(int_of(event, "world") or 0, 100_000)):
                    self._lane(rank)
            case "generation.open":
                self.reports_recoveries = True
                self.generation = max(self.generation, int_of(event, "generation") or 0)
            case "recovery.detect":
                self.reports_recoveries = True
                named = int_of(event, "rank")
                self._trouble(event, () if named is None else (named,), text_of(event, "kind"))
            case "target.exit":
                self._over()

    def _trouble(self, event: Mapping[str, object], ranks: tuple[int, ...], kind: str | None) -> None:
        if self.recovering is None:
            self.recovering = Recovering(time_of(event), self.step, ranks, kind)
        elif ranks:
            known = self.recovering.ranks
            self.recovering.ranks = known + tuple(rank for rank in ranks if rank not in known)
            self.recovering.kind = kind or self.recovering.kind
        for lane in self.lanes.values():
            if lane.state is State.RUNNING:
                lane.state = State.RECOVERING

    def _done(self, event: Mapping[str, object]) -> None:
        causes = [cause for cause in list_of(event, "causes") if isinstance(cause, dict)]
        ranks = [rank for cause in causes if (rank := int_of(cause, "rank")) is not None]
        phases = {p: taken for p in PHASES if (taken := float_of(event, f"{p}_s")) is not None}
        self._back(tuple(ranks), float_of(event, "total_s"), phases)

    def _back(self, ranks: tuple[int, ...], total_s: float | None, phases: Mapping[str, float]) -> None:
        self.recovered = Recovered(ranks, total_s, phases)
        self._over()

    def _over(self) -> None:
        self.recovering = None
        for lane in self.lanes.values():
            if lane.state is State.RECOVERING:
                lane.state = State.RUNNING

    # -- ranks

    def _lane(self, rank: int) -> Lane:
        return self.lanes.setdefault(rank, Lane(rank))

    def _rank(self, name: str, lane: Lane, event: Mapping[str, object]) -> None:
        node, pid = int_of(event, "node"), int_of(event, "pid")
        lane.node = lane.node if node is None else node
        match name:
            case "worker.start" | "worker.promoted":
                # A data loader's worker bears its trainer's rank too, and begins while that one trains.
                if lane.state is not State.RUNNING or event.get("source") != "agent":
                    lane.state, lane.pid = State.STARTING, pid
                    lane.mark(time_of(event), Mark.NEW)
            case "worker.exit" | "fence" if pid is not None and pid == lane.pid:
                ended_well = (
                    name == "worker.exit" and event.get("expected") is True and event.get("code") == 0
                )
                # Its end is told twice: by who waited for it, and by who fenced it.
                if not ended_well and not lane.strip.endswith(Mark.GONE):
                    lane.mark(time_of(event), Mark.GONE)
                lane.state = State.FINISHED if ended_well else State.DEAD
            case "generation.formed":
                lane.generation = int_of(event, "generation")
                lane.state = State.RECOVERING if self.recovering else State.RUNNING
            case "step.rollback":
                lane.mark(time_of(event), Mark.BACK)
            case "step.commit":
                self._commit(lane, event)

    def _commit(self, lane: Lane, event: Mapping[str, object]) -> None:
        step = int_of(event, "step")
        if step is None:
            return
        adopted = event.get("adopted") is True
        again = not adopted and step <= lane.step
        lane.mark(time_of(event), Mark.ADOPTED if adopted else Mark.AGAIN if again else Mark.STEP)
        lane.step = step
        lane.generation = int_of(event, "generation") or lane.generation
        lane.pid = (None if event.get("source") == "engine" else int_of(event, "pid")) or lane.pid
        was = self.recovering
        self.step = max(self.step, step)
        if was is not None and time_of(event) <= was.since_t:
            # It happened before the trouble and was told after it.
            was.above = max(was.above, step)
            return
        # The victim itself, or whoever took its place, goes beyond all that was there.
        back = was is not None and step > was.above and lane.rank in was.ranks and not adopted
        if was is not None and back and not self.reports_recoveries:
            self._back(was.ranks, time_of(event) - was.since_t, {})
        lane.state = State.RECOVERING if self.recovering else State.RUNNING

    # -- faults

    def _fault(self, stage: str, event: Mapping[str, object]) -> None:
        fault_id = text_of(event, "fault") or ""
        fault = self._faults.setdefault(fault_id, FaultNow(fault_id, text_of(event, "name") or fault_id))
        fault.stage = stage
        rank = int_of(event, "rank")
        ranks = [one for one in list_of(event, "ranks") if isinstance(one, int)]
        fault.ranks = tuple(ranks or ([rank] if rank is not None else fault.ranks))
        fault.nodes = tuple(one for one in list_of(event, "nodes") if isinstance(one, int)) or fault.nodes
        lanes = [self._lane(rank) for rank in fault.ranks]
        match stage:
            case "fired":
                for lane in lanes:
                    lane.mark(time_of(event), Mark.FAULT)
                if fault.expects is not None:
                    self._trouble(event, fault.ranks, fault.expects)
            case "verified":
                for lane in lanes:
                    struck = STRUCK.get(fault.expects or "")
                    if struck is not None and int_of(event, "pid") in (None, lane.pid):
                        lane.state = struck
            case "undone":
                for lane in lanes:
                    if lane.state is State.STOPPED:
                        lane.state = State.RECOVERING if self.recovering else State.RUNNING
