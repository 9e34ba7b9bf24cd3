"""A job in virtual time: the real state machines, and everything around them made of events.

Rules kept here
- The run is a pure function of the plan: all draws come from the generator that is handed in, in the order
  of events, and events of one instant keep the order in which they were made.
- What the shell, the kernel and gloo do is modelled as it was measured on one node: child status before
  messages, private channels in order, release from outside also on a stopped process.
- An invariant that does not hold raises `Violation` at the event that broke it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from chaos.simulation.checks import Checks
from chaos.simulation.group import Group
from chaos.simulation.plan import SimFault, SimPlan
from chaos.simulation.violation import Violation
from chaos.simulation.worker import Worker
from recovery.core import blame
from recovery.core import messages as m
from recovery.core.config import Config
from recovery.core.coordinator import Coordinator, Phase
from recovery.core.door import Door
from recovery.core.errors import ProtocolError
from recovery.core.fleet import FleetCoordinator
from recovery.core.lease import Lease
from recovery.core.member import Member, Stage
from recovery.core.pace import StepTimes, pace_of

if TYPE_CHECKING:
    from random import Random

    from chaos.simulation.striking import Striker


class Runs(Protocol):
    """What events happen to: a process that may stand still, and then finds them later."""

    alive: bool
    held: int
    deferred: list[tuple[Any, Any]]


LOOK_S = 0.1
"""How often the progress counters are read while the job runs."""
LATE = 12.0
"""How much longer than usual the longest of all delays are."""
SLOWEST_MESSAGE_S = 0.05
SETTLE_S = 25.0
"""After the last fault is over a commit must follow within this time, and the end within twice as much."""


@dataclass(frozen=True, slots=True)
class Machines:
    """What is under test; a seeded bug puts another class in a place."""

    coordinator: Callable[[Config], Coordinator] = Coordinator
    member: Callable[[int, int], Member] = Member
    judge: Callable[..., blame.Verdict | None] = blame.judge
    step_times: Callable[[], StepTimes] = StepTimes
    check_sequence: bool = True
    fleet: Callable[[Config], FleetCoordinator] = FleetCoordinator
    lease: Callable[[Config, float], Lease] = Lease
    door: Callable[[str], Door] = Door
    check_lease: bool = True
    """Whether a worker looks at its node's lease before it commits."""


class World:
    """One run. `run()` to its end, or `step()` by `step()`."""

    acts: ClassVar[dict[type[Any], Callable[[Any, Any], None]]]
    """How each action of the coordinator is carried out."""
    leased = False
    """Workers of the coordinator's own node have no lease: the two die together."""

    def __init__(self, plan: SimPlan, rng: Random, machines: Machines, *, record: bool = False) -> None:
        self.plan = plan
        self.config = plan.config()
        self.machines = machines
        self.rng = rng
        self._random = rng.random
        self.now = 0.0
        self.events = 0
        self._order = 0
        self._queue: list[tuple[float, int, Runs | None, Any, Any]] = []
        self.coordinator = self._make_coordinator()
        self.workers: dict[int, Worker] = {}
        self.groups: dict[int, Group] = {}
        self.open_generation = 0
        self.partition: frozenset[int] = frozenset()
        self.template_ready = 0.0
        self.ended: m.End | None = None
        self.log: list[dict[str, Any]] | None = [] if record else None
        # for the checks
        self.fired: list[tuple[Any, Worker | None]] = []
        self.troubles = 0
        self.died_late = False
        self.last_progress = 0.0
        self.quiet_since = 0.0
        """Since when no fault has begun or lasted."""
        self.seen: set[tuple[str, str, str]] | None = None
        self._taints = 0
        self._tick_at = float("inf")
        self._look_made = False
        self._released = 0
        self.checks = self._make_checks()
        from chaos.simulation.striking import Striker

        self.striker: Striker = Striker(self)
        self._act(self.coordinator.begin(self.now))
        self._arm()

    def _make_coordinator(self) -> Coordinator:
        return self.machines.coordinator(self.config)

    def _make_checks(self) -> Checks:
        return Checks(self)

    # ------------------------------------------------------------------ clock and queue

    def push(self, at: float, target: Runs | None, handler: Any, arg: Any = None) -> None:
        self._order += 1
        heapq.heappush(self._queue, (at, self._order, target, handler, arg))

    def delay(self, low_s: float, high_s: float) -> float:
        """A random delay, now and then far above the usual."""
        draw = self._random()
        delay = low_s + (high_s - low_s) * draw
        return delay if draw < 0.96 else delay * LATE

    def new_taint(self) -> int:
        self._taints += 1
        return self._taints

    def run(self) -> m.End:
        """To the end.

        Raises:
            Violation: an invariant does not hold, or the job does not end.
        """
        while self.step():
            pass
        assert self.ended is not None
        return self.ended

    def step(self) -> bool:
        """One event; False when the job has ended."""
        if self.ended is not None:
            return False
        if not self._queue:
            raise Violation("ends_after_the_last_fault", "nothing is left that could happen")
        self.now, _, target, handler, arg = heapq.heappop(self._queue)
        self.events += 1
        if target is not None:
            if target.held:
                target.deferred.append((handler, arg))
                return True
            if not target.alive:
                return True
        try:
            handler(arg)
        except ProtocolError as error:
            raise Violation("protocol_raises_no_error", str(error)) from error
        if self.now - self.last_progress > SETTLE_S:
            self._in_time()
        return self.ended is None

    def _in_time(self) -> None:
        waited = self.now - max(self.quiet_since, self.last_progress)
        finishing = self.checks.highest >= self.plan.steps
        if waited > SETTLE_S * (2 if finishing else 1) + self.plan.world * 0.02:
            name = "ends_after_the_last_fault" if finishing else "commits_again_after_the_last_fault"
            phase = self.coordinator.phase.value
            raise Violation(name, f"{waited:.1f} s after the last fault the coordinator is {phase}")

    def note(self, event: str, **fields: Any) -> None:
        if self.log is not None:
            self.log.append({"t": round(self.now, 6), "event": event, **fields})

    def reached(self, worker: Worker | None, event: str, step: int | None = None) -> None:
        """A point at which faults may be waiting."""
        if self.log is not None:
            fields: dict[str, Any] = {}
            if worker is not None:
                fields = {"rank": worker.rank, "generation": worker.machine.generation}
            if step is not None:
                fields["step"] = step
            self.log.append({"t": round(self.now, 6), "event": event, **fields})
        if event in self.striker.watched:
            self.striker.reached(worker, event, step)

    def fired_names(self) -> list[str]:
        return [fault.name for fault, _ in self.fired]

    # ------------------------------------------------------------------ the supervisor hears

    def send_up(self, worker: Worker, message: Any) -> None:
        """From a member to the coordinator, in order."""
        wait_s = self.delay(0.0002, 0.002) * worker.pace
        at = max(self.now + (wait_s if wait_s < SLOWEST_MESSAGE_S else SLOWEST_MESSAGE_S), worker.last_up)
        if worker.net and self.striker.on_the_wire(worker, "up", at, message):
            return
        worker.last_up = at
        self.push(at, None, self._hear, (worker, message))

    def send_down(self, worker: Worker, handler: Any, message: Any) -> None:
        """From the coordinator to a process, in order."""
        at = max(self.now + self.delay(0.0002, 0.002), worker.last_down)
        if worker.net and self.striker.on_the_wire(worker, "down", at, (handler, message)):
            return
        worker.last_down = at
        self.push(at, worker, handler, message)

    def _hear(self, what: tuple[Worker, m.Event]) -> None:
        worker, message = what
        if not worker.reaped:
            self.tell(message)

    agrees_in_band = False
    """Whether the exchange at the end of a step goes over the network between the members."""

    def tell_of(self, worker: Worker, event: m.Event) -> None:
        """Something that the kernel of this process's node reports."""
        self.tell(event)

    def apart(self, group: Group, number: int) -> bool:
        """Whether something cuts off members that this operation needs."""
        return True

    def hears_of(self, worker: Worker, group: Group, gone: Worker | None = None) -> bool:
        """Whether a neighbour's departure reaches this process; of any that has gone, without a name."""
        return True

    def tell(self, event: m.Event | m.NodeEvent) -> None:
        if self.ended is not None:
            return
        coordinator = self.coordinator
        if self.seen is not None:
            slot = coordinator._by_proc.get(getattr(event, "proc", -1) or -1)
            status = slot.status.value if slot is not None else "-"
            self.seen.add((coordinator.phase.value, type(event).__name__, status))
        phase, generation = coordinator.phase, coordinator.generation
        told = getattr(event, "generation", generation)
        if told != generation and type(event) in _OF_A_GENERATION:
            slot = coordinator._by_proc.get(event.proc)  # type: ignore[union-attr, arg-type]
            before = slot.status if slot is not None else None
            actions = coordinator.handle(event, self.now)  # type: ignore[arg-type]
            after = slot.status if slot is not None else None
            changed = bool(actions) or before is not after
            self.checks.stale(event, generation, changed)  # type: ignore[arg-type]
        else:
            actions = coordinator.handle(event, self.now)  # type: ignore[arg-type]
        if actions:
            self._act(actions)
        self.checks.every()
        if (
            actions
            or coordinator.phase is not phase
            or type(event) in _MOVES_DEADLINES
            or (type(event) is m.Ready and event.finished and self._tick_at == float("inf"))
        ):
            self._arm()

    def _arm(self) -> None:
        """Make sure that a tick comes when it has something to do."""
        due = self.coordinator.due()
        if due < float("inf"):
            due = max(due, self.now) + self.delay(0.001, 0.01)
            if due < self._tick_at or self._tick_at <= self.now:
                self._tick_at = due
                self.push(due, None, self._tick, due)
        if self.coordinator.phase is Phase.RUNNING and not self._look_made:
            self._look_made = True
            self.push(self.now + LOOK_S, None, self._look)

    def _tick(self, due: float) -> None:
        if due == self._tick_at:
            self._tick_at = float("inf")
            self.tell(m.Tick())
            self._arm()

    def _look(self, _: Any) -> None:
        """Read the progress counters, as the supervisor does on each turn."""
        coordinator = self.coordinator
        self._look_made = False
        if self.ended is not None or coordinator.phase is not Phase.RUNNING:
            return
        self._look_made = True
        self.push(self.now + LOOK_S, None, self._look)
        slots = coordinator.slots
        generation = coordinator.generation
        members = [self.workers[slot.proc] for slot in slots]
        if any(slot.status.value != "running" for slot in slots):
            return
        if any(member.counted_generation != generation for member in members):
            return
        step_s = pace_of(member.step_s for member in members if member.commits > 1)
        if step_s is not None and step_s != coordinator.step_s:
            self.tell(m.Pace(step_s))
        common = min(member.issued for member in members)
        read = [
            blame.Progress(
                rank=rank,
                proc=member.proc,
                generation=generation,
                version=member.machine.version or 0,
                warm=member.commits > 1,
                issued=member.issued,
                done=member.done,
                issued_at=member.issued_at,
                changed_at=member.changed_at,
                busy_until=member.busy_until,
                starved_s=0.0,
                common_chain=member.chain[common - 1] if common else 0,
                sealing=member.sealing,
            )
            for rank, member in enumerate(members)
        ]
        verdict = self.machines.judge(read, self.config, step_s, self.now)
        if verdict is not None:
            self.tell(m.Accused(verdict.proc, generation, verdict.kind, verdict.detail, verdict.since))

    # ------------------------------------------------------------------ the supervisor acts

    def _act(self, actions: Sequence[m.Action]) -> None:
        self.checks.acted(list(actions))
        for action in actions:
            self.acts[type(action)](self, action)

    def _start(self, action: m.Start) -> None:
        pace = 0.5 + 1.5 * self._random() if self.plan.schedule == "uniform" else self.striker.priority()
        worker = Worker(self, action.proc, action.rank, pace)
        self.workers[action.proc] = worker
        if action.rank is None:
            self.checks.spare_started()
        else:
            self.checks.given(action.rank, action.proc)
        at = max(self.now, self.template_ready) + self.delay(0.01, 0.05)
        self.push(at, None, self._forked, worker)

    def _forked(self, worker: Worker) -> None:
        worker.alive = worker.born = True
        self.note("worker.start", rank=worker.rank, proc=worker.proc)
        self.tell_of(worker, m.Started(worker.proc))
        if worker.doomed:
            self.push(self.now + self.delay(0.001, 0.01), None, self._killed, worker)
        worker.later(worker.booted, 0.01, 0.05)
        self.resume(worker)  # what has been sent to it meanwhile waits in its channel
        self.reached(worker, "worker.start")

    def _promote(self, action: m.Promote) -> None:
        self.checks.given(action.rank, action.proc)
        worker = self.workers[action.proc]
        worker.rank = action.rank
        self.send_down(worker, worker.ranked, action.rank)
        self.reached(worker, "worker.promoted")

    def _fence(self, action: m.Fence) -> None:
        worker = self.workers[action.proc]
        self.checks.fenced(worker)
        self.troubles += 1
        worker.fenced = worker.doomed = True
        self.note("fence", rank=worker.rank, proc=worker.proc, reason=action.reason)
        if worker.alive:
            self.push(self.now + self.delay(0.001, 0.02), None, self._killed, worker)

    def _killed(self, worker: Worker) -> None:
        self.die(worker, None, 9, None)

    def _release(self, action: m.Release) -> None:
        if self.open_generation:
            closed = self.groups.get(self.open_generation)
            self.open_generation = 0
            if closed is not None:
                closed.over(self)
        worker = self.workers[action.proc]
        group = worker.group
        if group is not None and worker.machine.stage is not Stage.CONNECTING:
            # Connections that it is just opening are not among those that are shut now.
            worker.cut = max(worker.cut, min(group.generation, action.generation))
        if group is not None and group.generation <= action.generation and not worker.deaf:
            group.release(worker)
        if action.generation > self._released:
            self._released = action.generation
            self.reached(worker, "group.release")

    def _open(self, action: m.Open) -> None:
        self.checks.opened(action)
        members = [self.workers[member.proc] for member in action.members]
        self.groups[action.generation] = Group(self, action.generation, members)
        self.open_generation = action.generation
        if self.log is not None:
            told = [[member.rank, member.proc] for member in action.members]
            self.note(
                "generation.open",
                generation=action.generation,
                members=told,
                version=action.version,
                holders=list(action.holders),
                receivers=list(action.receivers),
                cause=action.cause,
            )
        for worker in members:
            self.send_down(worker, worker.heard, action)
        self.reached(None, "generation.opened")

    def _leave(self, action: m.Leave) -> None:
        for worker in self.workers.values():
            if worker.rank is not None and not worker.reaped:
                self.send_down(worker, worker.heard, action)

    def _note(self, action: m.Note) -> None:
        rank = action.cause.rank if action.cause else None
        if self.log is not None and action.cause is not None:
            self.note(f"cause.{action.cause.kind}", rank=rank, detail=action.cause.detail)
        if action.name == "recovery.detect":
            if action.cause is not None and action.cause.proc is None:
                self.troubles += 1
            self.striker.detected = rank
        self.reached(self.checks.owners.get(rank) if rank is not None else None, action.name)

    def _recovered(self, action: m.Recovered) -> None:
        self.checks.recovered(action)
        causes = [[cause.rank, cause.kind] for cause in action.causes]
        self.note("recovery.done", generation=action.generation, causes=causes)

    def _end(self, action: m.End) -> None:
        self.checks.ended(action)
        self.ended = action
        self.note("job.end", exit_code=action.code, reason=action.reason, detail=action.detail)

    # ------------------------------------------------------------------ the kernel

    def die(self, worker: Worker, code: int | None, signal: int | None, error: str | None) -> None:
        """The process is dead; the supervisor hears of it when it is reaped."""
        if not worker.alive:
            return
        worker.alive = False
        if worker.group is not None:
            worker.group.leave(worker)
        at = self.now + self.delay(0.001, 0.02) + worker.linger_s
        self.push(at, None, self._reap, (worker, code, signal, error))

    def _reap(self, what: tuple[Worker, int | None, int | None, str | None]) -> None:
        worker, code, signal, error = what
        worker.reaped = True
        if self.coordinator.phase is Phase.LEAVING and code != 0:
            self.died_late = True
        since = worker.changed_at or None
        self.note("worker.exit", rank=worker.rank, proc=worker.proc, code=code, signal=signal)
        self.tell_of(worker, m.Exited(worker.proc, code, signal, error, since))
        self.reached(worker, "worker.exit")

    def strike_node(self, fault: SimFault, at: Worker | None) -> float | None:
        """Carry out a fault of a node; how long it lasts, None if it was no such fault."""
        return None

    def strike(self, fault: SimFault) -> None:
        """A fault now, besides those of the plan."""
        self.striker.strike(fault)

    def hold(self, worker: Runs) -> None:
        """From now on it does not run."""
        worker.held += 1

    def resume(self, worker: Runs) -> None:
        """It runs again: what has come meanwhile happens now, in order."""
        worker.held -= 1
        if worker.held == 0 and worker.alive:
            deferred, worker.deferred = worker.deferred, []
            for handler, arg in deferred:
                self.push(self.now, worker, handler, arg)


_MOVES_DEADLINES = frozenset({m.Stopped, m.Continued, m.Busy, m.Accused})
_OF_A_GENERATION = frozenset({m.Formed, m.Failed, m.Accused})
World.acts = {
    m.Start: World._start,
    m.Promote: World._promote,
    m.Fence: World._fence,
    m.Release: World._release,
    m.Open: World._open,
    m.Leave: World._leave,
    m.Note: World._note,
    m.Recovered: World._recovered,
    m.End: World._end,
}
