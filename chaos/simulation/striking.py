"""When a fault of the plan is due, whom it hits, and what it does to a simulated process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chaos.simulation.plan import SimFault
from recovery.core import messages as m
from recovery.core.member import Stage

if TYPE_CHECKING:
    from chaos.simulation.worker import Worker
    from chaos.simulation.world import World

# A phase of a step, as suites name it, and the point of the simulated step that it begins with.
PHASE_POINTS = {
    "data": "step.begin",
    "forward": "step.begin",
    "backward": "backward",
    "bucket": "backward",
    "optimizer": "step.seal",
    "commit": "step.commit",
}
WORKER_POINTS = (
    "member.enter",
    "recovery.transfer",
    "state.send",
    "state.receive",
    "generation.formed",
    "step.begin",
    "backward",
    "step.seal",
    "step.commit",
    "step.rollback",
    "worker.start",
    "worker.promoted",
    "worker.exit",
)
JOB_POINTS = ("generation.opened", "recovery.detect", "recovery.fence", "recovery.resume", "group.release")
NODE_POINTS = (
    *("node.join", "node.lost", "node.evict", "node.return"),
    *("node.probe", "node.answer", "lease.expired", "lease.grant"),
)
ALIASES = {
    "recovery.regroup": "recovery.fence",
    "generation.open": "generation.opened",
    "fence": "group.release",
}
ROLES = (
    "lowest_live",
    "transfer_source",
    "transfer_target",
    "replacement",
    "detected",
    "holder",
    "spare",
    "template",
)
TEMPLATE_START_S = 0.8
AFTER_THE_LOOP_S = 2.0
"""A hang where no limit applies, in what the script does after its last step, ends by itself."""


class Striker:
    """The faults of one plan that have not come yet, and those that last."""

    __slots__ = ("detected", "watched", "world")

    def __init__(self, world: World) -> None:
        self.world = world
        self.detected: int | None = None
        self.watched: dict[str, list[list[Any]]] = {}
        """Event name -> [fault, occurrences still to pass]."""
        for fault in world.plan.faults:
            self._wait_for(fault)
        if world.plan.schedule == "pct":
            for _ in range(world.plan.changes):
                world.push(world.delay(0.1, 2.0), None, self._demote)

    def _wait_for(self, fault: SimFault) -> None:
        world, when = self.world, fault.when
        if "after_fault" in when:
            self._watch("fault." + when["after_fault"], fault)
        elif "event" in when:
            self._watch(ALIASES.get(when["event"], when["event"]), fault)
        elif "step" in when:
            self._watch(PHASE_POINTS[when.get("phase", "forward")], fault)
        else:
            world.push(float(when.get("after_s", 0.0)), None, self.strike, fault)

    def _watch(self, event: str, fault: SimFault) -> None:
        self.watched.setdefault(event, []).append([fault, int(fault.when.get("occurrence", 1))])

    # ------------------------------------------------------------------ schedules by priority

    def priority(self) -> float:
        """A process's pace in a schedule by priorities: few are fast, one is very slow."""
        return (0.3, 1.0, 3.0, 10.0)[int(4 * self.world.rng.random())]

    def _demote(self, _: Any) -> None:
        """The process that is looked at falls behind all others from here on."""
        live = [worker for worker in self.world.workers.values() if worker.alive]
        if live:
            live[int(len(live) * self.world.rng.random())].pace = 15.0

    # ------------------------------------------------------------------ moments

    def reached(self, worker: Worker | None, event: str, step: int | None) -> None:
        waiting = self.watched[event]
        for entry in list(waiting):
            fault = entry[0]
            if not self._matches(fault, worker, event, step):
                continue
            entry[1] -= 1
            if entry[1] > 0:
                continue
            waiting.remove(entry)
            after = float(fault.when.get("after_s", 0.0))
            # At the same instant, but after what this event leads to within its process.
            self.world.push(self.world.now + after, None, self._strike, (fault, worker))
        if not waiting:
            del self.watched[event]

    def _matches(self, fault: SimFault, worker: Worker | None, event: str, step: int | None) -> bool:
        wanted = fault.when.get("step")
        if wanted is not None and step != wanted:
            return False
        if event not in WORKER_POINTS:
            return True
        rank = fault.where.get("rank")
        if rank is not None:
            return worker is not None and worker.rank == rank
        role = fault.where.get("role")
        opening = worker.machine.opening if worker is not None else None
        if event in ("recovery.transfer", "state.send", "state.receive") and opening is not None:
            assert worker is not None
            if role == "transfer_source":
                return worker.rank in opening.holders
            if role == "transfer_target":
                return worker.rank in opening.receivers
        return True

    def strike(self, fault: SimFault) -> None:
        """Now, whatever its moment says."""
        self._strike((fault, None))

    def _strike(self, what: tuple[SimFault, Worker | None]) -> None:
        fault, at = what
        world = self.world
        if world.ended is not None:
            return
        if fault.where.get("role") == "template":
            self._template(fault)
            self._is_over(fault.duration_s or 0.0)
            return
        lasts_s = world.strike_node(fault, at)
        if lasts_s is not None:
            self._is_over(lasts_s)
            return
        worker = self._victim(fault, at)
        strike = _STRIKES[fault.name]
        if worker is None or not worker.alive:
            self._count(fault, None)
            self._is_over(0.0)
            return
        self._count(fault, worker)
        lasts_s = strike(self, worker, fault)
        self._is_over(lasts_s)

    def _count(self, fault: SimFault, worker: Worker | None) -> None:
        """For the record, whether or not there was anyone to hit."""
        world = self.world
        if world.log is not None:
            rank = worker.rank if worker is not None else None
            world.note("fault.fired", fault=fault.id, name=fault.name, rank=rank)
        if worker is not None:
            world.fired.append((fault, worker))
        if world.seen is not None:
            world.seen.add(("fault " + world.coordinator.phase.value, fault.name, where(world, worker)))
        if "fault." + fault.id in self.watched:
            self.reached(worker, "fault." + fault.id, None)

    def _is_over(self, lasts_s: float) -> None:
        world = self.world
        world.quiet_since = max(world.quiet_since, world.now + lasts_s)

    # ------------------------------------------------------------------ victims

    def _victim(self, fault: SimFault, at: Worker | None) -> Worker | None:
        world = self.world
        rank = fault.where.get("rank")
        owners = world.checks.owners
        if rank is not None:
            return owners.get(rank)
        role = fault.where.get("role")
        live = [worker for _, worker in sorted(owners.items()) if worker.alive]
        if role == "spare":
            return next((w for w in world.workers.values() if w.alive and w.rank is None), None)
        if role == "lowest_live":
            return live[0] if live else None
        if role == "detected":
            return owners.get(self.detected) if self.detected is not None else None
        if role == "replacement":
            return max(live, key=lambda worker: worker.proc, default=None)
        if role in ("transfer_source", "transfer_target"):
            if at is not None and at.alive and at.machine.stage in (Stage.GIVING, Stage.TAKING):
                return at
            stage = Stage.GIVING if role == "transfer_source" else Stage.TAKING
            return next((worker for worker in live if worker.machine.stage is stage), None)
        if role == "holder":
            return next((worker for worker in live if worker.machine.version is not None), None)
        return at if at is not None else (live[0] if live else None)

    # ------------------------------------------------------------------ what faults do

    def _kill(self, worker: Worker, fault: SimFault) -> float:
        worker.struck.add(fault.name)
        self.world.die(worker, None, 9, None)
        return 0.0

    def _exit(self, worker: Worker, fault: SimFault) -> float:
        worker.struck.add(fault.name)
        self.world.die(worker, int(fault.params.get("code", 0)), None, None)
        return 0.0

    def _exception(self, worker: Worker, fault: SimFault) -> float:
        worker.struck.add(fault.name)
        worker.raise_next = True
        return 0.0

    def _stop(self, worker: Worker, fault: SimFault) -> float:
        world, lasts_s = self.world, fault.duration_s
        if lasts_s is None:
            worker.struck.add(fault.name)
            worker.stopped += 1
            world.hold(worker)
            world.push(world.now + 0.001, None, self._tell_stopped, (worker, worker.changed_at or None))
            return 0.0
        if lasts_s > 0.5 * world.config.stop_grace_s:
            worker.struck.add(fault.name)
        since = worker.changed_at or None
        self._handicap(worker, lasts_s, fault)
        worker.stopped += 1
        world.hold(worker)
        world.push(world.now + world.delay(0.0002, 0.004), None, self._tell_stopped, (worker, since))
        world.push(world.now + lasts_s, None, self._thaw, worker)
        return lasts_s

    def _tell_stopped(self, what: tuple[Worker, float | None]) -> None:
        worker, since = what
        if not worker.reaped and worker.stopped:
            self.world.tell_of(worker, m.Stopped(worker.proc, since))

    def _thaw(self, worker: Worker) -> None:
        worker.stopped -= 1
        self.world.resume(worker)
        self.world.push(self.world.now + 0.004, None, self._tell_continued, worker)

    def _tell_continued(self, worker: Worker) -> None:
        if not worker.reaped and worker.alive and not worker.stopped:
            self.world.tell_of(worker, m.Continued(worker.proc))

    def _hang(self, worker: Worker, fault: SimFault) -> float:
        worker.struck.add(fault.name)
        if fault.duration_s is not None:
            return self._keep(worker, fault, fault.duration_s)
        if worker.machine.finished or worker.machine.stage is Stage.GONE:
            return self._keep(worker, fault, AFTER_THE_LOOP_S)
        self.world.hold(worker)
        return 0.0

    def _delay(self, worker: Worker, fault: SimFault) -> float:
        return self._keep(worker, fault, min(fault.duration_s or 0.05, 0.45 * self.world.config.hang_min_s))

    def _busy(self, worker: Worker, fault: SimFault) -> float:
        lasts_s = fault.duration_s or 1.0
        if worker.machine.stage is not Stage.STEPPING:
            return 0.0
        worker.busy_until = max(worker.busy_until, self.world.now + lasts_s + 0.3)
        self.world.tell_of(worker, m.Busy(worker.proc, worker.busy_until))
        self.world.hold(worker)
        self.world.push(self.world.now + lasts_s, None, self.world.resume, worker)
        return lasts_s

    def _keep(self, worker: Worker, fault: SimFault, lasts_s: float) -> float:
        self._handicap(worker, lasts_s, fault)
        self.world.hold(worker)
        self.world.push(self.world.now + lasts_s, None, self.world.resume, worker)
        return lasts_s

    def _handicap(self, worker: Worker, lasts_s: float, fault: SimFault) -> None:
        """Several short delays of one process can make it too late together."""
        worker.handicap_s += lasts_s
        if worker.handicap_s > 0.5 * self.world.config.hang_min_s:
            worker.struck.add(fault.name)

    def _fail(self, worker: Worker, fault: SimFault) -> float:
        worker.fail_next = True
        return 0.0

    def _desync(self, worker: Worker, fault: SimFault) -> float:
        worker.struck.add(fault.name)
        worker.desync = fault.name
        return 0.0

    def _bitflip(self, worker: Worker, fault: SimFault) -> float:
        """Memory that stays wrong; what a step then computes from it is wrong too."""
        world = self.world
        if worker.taint < 0:
            version, _ = worker.shadow
            if worker.machine.stage is not Stage.STEPPING:
                return 0.0
            worker.shadow = (version, self._deliberate())
        elif worker.machine.version is not None and world.checks.highest:
            worker.taint = self._deliberate()
            if worker.machine.stage is Stage.STEPPING:
                worker.shadow = (worker.shadow[0], worker.taint)
        return 0.0

    def _deliberate(self) -> int:
        taint = self.world.new_taint()
        self.world.checks.tainted_on_purpose.add(taint)
        return taint

    def _corrupt(self, worker: Worker, fault: SimFault) -> float:
        worker.corrupt_next = True
        return 0.0

    def _deaf(self, worker: Worker, fault: SimFault) -> float:
        worker.struck.add(fault.name)
        worker.deaf = True
        return 0.0

    def _linger(self, worker: Worker, fault: SimFault) -> float:
        worker.linger_s = min(fault.duration_s or 0.5, 3.0)
        return 0.0

    def _partition(self, worker: Worker, fault: SimFault) -> float:
        """The training network alone: no collective and no connection across it."""
        lasts_s = fault.duration_s or 1.0
        world = self.world
        if worker.rank is None or world.plan.world < 2:
            return 0.0
        world.partition |= {worker.rank}
        for other in world.workers.values():
            other.struck.add(fault.name)
        world.push(world.now + lasts_s, None, self._unite, worker.rank)
        return lasts_s

    def _unite(self, rank: int) -> None:
        world = self.world
        world.partition -= {rank}
        group = world.groups.get(world.open_generation)
        if not world.partition and group is not None:
            group.unblocked()

    def _template(self, fault: SimFault) -> None:
        world = self.world
        lost_s = TEMPLATE_START_S if fault.name == "process.kill" else min(fault.duration_s or 0.3, 1.0)
        world.template_ready = max(world.now, world.template_ready) + lost_s

    # ------------------------------------------------------------------ the control channel

    def _net(self, worker: Worker, fault: SimFault) -> float:
        way = str(fault.params.get("way", "up"))
        worker.net.append((fault.name, way, fault.duration_s or 0.05))
        if fault.name == "net.loss":
            worker.struck.add(fault.name)
        return fault.duration_s or 0.05

    def on_the_wire(self, worker: Worker, way: str, at: float, message: Any) -> bool:
        """A fault that waits for this message; True if it must not be delivered as usual."""
        world = self.world
        entry = next((one for one in worker.net if one[1] == way), None)
        if entry is None:
            return False
        what = message if way == "up" else message[1]
        final = isinstance(what, m.Leave) or (isinstance(what, m.Ready) and what.finished)
        if final and entry[0] == "net.loss":
            return False  # no deadline covers these: the protocol asks its channel not to lose them
        worker.net.remove(entry)
        name, _, delay_s = entry
        if name == "net.loss":
            return True
        if way == "up":
            deliver, arg, target = self._late_up, message, None
        else:
            deliver, arg, target = message[0], message[1], worker
        world.push(at + delay_s, target, deliver, arg)
        return name == "net.delay"

    def _late_up(self, message: m.Event) -> None:
        """A copy that may come after its sender's death."""
        self.world.tell(message)


def where(world: World, worker: Worker | None) -> str:
    """What a process is doing, and as whom: a row of the coverage table."""
    if worker is None:
        return "nobody"
    if worker.rank is None or worker.machine.rank < 0:
        return "parked spare" if worker.rank is None else "starting newcomer"
    machine = worker.machine
    if worker.machine.rank == 0:
        role = "rank 0"
    elif machine.version is not None:
        role = "holder"
    else:
        role = "newcomer"
    stage = machine.stage.value
    if machine.stage is Stage.WAITING and machine.finished:
        stage = "finished"
    elif worker.sealing:
        stage = "sealing"
    return f"{stage} {role}"


_STRIKES: dict[str, Any] = {
    "process.kill": Striker._kill,
    "process.exit": Striker._exit,
    "process.exception": Striker._exception,
    "process.stop": Striker._stop,
    "process.linger": Striker._linger,
    "process.deaf": Striker._deaf,
    "collective.hang": Striker._hang,
    "collective.delay": Striker._delay,
    "collective.error": Striker._fail,
    "collective.skip": Striker._desync,
    "collective.extra": Striker._desync,
    "collective.corrupt": Striker._corrupt,
    "numeric.bitflip": Striker._bitflip,
    "net.partition": Striker._partition,
    "net.delay": Striker._net,
    "net.loss": Striker._net,
    "net.duplicate": Striker._net,
    "workload.busy": Striker._busy,
}
