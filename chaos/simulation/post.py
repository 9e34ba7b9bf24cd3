"""One simulated supervisor of a node other than the coordinator's, and the node that it runs on.

Times with `local` are by the node's own clock, which has its own zero and rate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chaos.simulation.network import Line
from chaos.simulation.progress import Sample
from recovery.core import messages as m
from recovery.core.door import Admitted, Hello, Refused

if TYPE_CHECKING:
    from chaos.simulation.fleet import FleetWorld
    from chaos.simulation.worker import Worker
    from recovery.core.door import Later
    from recovery.core.lease import Lease

RETRY_S = 1.2
"""How long a supervisor waits for the answer to a greeting before it greets again."""
LATER_S = 0.2
"""How soon it does when it was told to come later."""


class Node:
    """A machine and its clock."""

    __slots__ = ("base", "base_local", "index", "post", "powered", "rate", "world")

    def __init__(self, world: FleetWorld, index: int, rate: float, offset: float) -> None:
        self.world, self.index, self.rate = world, index, rate
        self.base, self.base_local = 0.0, offset
        self.powered = True
        self.post = Post(world, self)

    def local(self) -> float:
        return self.base_local + (self.world.now - self.base) * self.rate

    def when(self, local: float) -> float:
        """The world's time at which this clock will show `local`."""
        return self.base + (local - self.base_local) / self.rate

    def run_at(self, rate: float) -> None:
        self.base_local, self.base, self.rate = self.local(), self.world.now, rate


class Post:
    """A supervisor from its start to its end. The coordinator's own is one too, without line and lease."""

    __slots__ = (
        "alive",
        "alone_since",
        "deferred",
        "ended",
        "falling",
        "former",
        "greet_at",
        "greetings",
        "held",
        "index",
        "job",
        "lease",
        "lease_until",
        "leased",
        "line",
        "node",
        "open_generation",
        "resigning",
        "samples",
        "session",
        "stuck",
        "turn_at",
        "workers",
        "world",
    )

    def __init__(self, world: FleetWorld, node: Node) -> None:
        self.world, self.node, self.index = world, node, node.index
        self.leased = node.index != 0
        self.alive, self.held = True, 0
        self.deferred: list[tuple[Any, Any]] = []
        self.workers: list[Worker] = []
        self.open_generation = 0
        self.session = self.former = 0
        self.job = ""
        self.line: Line | None = None
        self.lease: Lease | None = None
        self.lease_until = 0.0
        """The word on the page that workers look at."""
        self.greetings = 0
        self.greet_at = 0.0
        self.alone_since = world.now
        self.falling = self.resigning = self.ended = False
        self.stuck = False
        """Frozen, and never to be thawed."""
        self.turn_at = float("inf")
        self.samples: dict[int, Any] = {}
        """What the coordinator has last heard of the progress of its workers, by process."""

    # ------------------------------------------------------------------ coming

    def greet(self, due: float | None = None) -> None:
        """Ask for a session, or after a broken connection for the one it has; and again, until answered."""
        world = self.world
        busy = self.ended or self.falling or self.resigning or (due is not None and due != self.greet_at)
        if busy or (self.session and not world.coordinator_lost):
            return
        if not self.session and world.now - self.alone_since > world.config.node_wait_s:
            self.end()
            return
        self.greetings += 1
        hello = Hello(self.index, self.job, self.session, self.former)
        world.greeting(self, hello, self.greetings, self.node.local())
        self.greet_at = world.now + RETRY_S
        world.push(self.greet_at, self, self.greet, self.greet_at)

    def answered(self, what: tuple[int, float, str, Admitted | Later | Refused, Line | None]) -> None:
        """The coordinator's answer to a greeting."""
        number, sent_local, job, answer, line = what
        if number != self.greetings or self.session or self.falling or self.ended or self.resigning:
            if isinstance(answer, Refused) and not self.ended:
                self.end()
            return
        if isinstance(answer, Refused):
            self.end()
        elif isinstance(answer, Admitted):
            world = self.world
            self.job, self.session = job, answer.session
            self.line = line
            self.lease = world.machines.lease(world.config, sent_local)
            self.lease_until = self.lease.until
            self.turn()
        else:
            self.greet_at = self.world.now + LATER_S
            self.world.push(self.greet_at, self, self.greet, self.greet_at)

    # ------------------------------------------------------------------ its lease

    def lease_is_over(self) -> bool:
        """By the word on the page."""
        return self.node.local() >= self.lease_until

    def turn(self, due: Any = None) -> None:
        """Look at the lease, ask to keep it, tell of progress."""
        if self.lease is None or self.line is None or (due is not None and due != self.turn_at):
            return
        world, local = self.world, self.node.local()
        if self.lease.over(local):
            self.fall()
            return
        number = self.lease.beat(local)
        if number is not None:
            self.line.sent[number] = local
            samples = {worker.proc: Sample.of(worker) for worker in self.workers if worker.counted_generation}
            self.line.send_up((number, samples))
        self.turn_at = max(world.now + 0.001, self.node.when(self.lease.due())) + world.delay(0.0, 0.004)
        world.push(self.turn_at, self, self.turn, self.turn_at)

    def granted(self, number: int) -> None:
        if self.lease is not None:
            self.lease.granted(number)
            if self.lease.over(self.node.local()):
                self.fall()
            else:
                self.lease_until = self.lease.until

    def fall(self) -> None:
        """The lease is over: end everything, and come back as a node on which nothing runs."""
        world = self.world
        world.note("lease.expired", node=self.index)
        self._leave_session()
        self.falling = True
        self.kill_all()
        self._when_empty()
        world.reached(None, "lease.expired")

    def _leave_session(self) -> None:
        world = self.world
        if self.line is not None:
            self.line.forget()
            for worker in world.workers.values():
                if worker.line is self.line and not worker.born:
                    worker.reaped = True  # it will never be
        self.former, self.session, self.line, self.lease = self.session, 0, None, None
        self.samples = {}
        self.alone_since = world.now

    # ------------------------------------------------------------------ orders

    def told(self, what: tuple[Line, Any, Any]) -> None:
        line, handler, message = what
        if line is self.line or handler == self.answered:
            handler(message)

    def start(self, worker: Worker) -> None:
        if self.resigning:
            worker.reaped = True  # it will not act in this session again
            return
        self.workers.append(worker)
        world = self.world
        world.push(world.now + world.delay(0.01, 0.05), None, world.forked, worker)

    def pass_on(self, what: tuple[Worker, Any, Any]) -> None:
        """A word for one of its workers."""
        worker, handler, message = what
        world = self.world
        if isinstance(message, m.Open):
            self.open_generation = max(self.open_generation, message.generation)
        worker.last_down = max(worker.last_down, world.now + world.delay(0.0002, 0.002))
        world.push(worker.last_down, worker, handler, message)

    def kill(self, worker: Worker) -> None:
        worker.doomed = True
        if worker.alive:
            self.world.push(self.world.now + self.world.delay(0.001, 0.02), None, self.world._killed, worker)

    def release(self, what: tuple[Worker, int]) -> None:
        self.world.release_at(self, *what)

    def asked(self, what: tuple[int, tuple[int, ...]]) -> None:
        """Try to reach the others."""
        self.world.push(self.world.now + self.world.delay(0.002, 0.02), self, self._found, what)

    def _found(self, what: tuple[int, tuple[int, ...]]) -> None:
        number, nodes = what
        reached = self.world.reaches(self.index, number, nodes)
        if not self.leased:
            self.world.tell(reached)
        elif self.line is not None:
            self.line.send_up(reached)

    def relay(self, event: m.Event) -> None:
        """What one of its workers says, or the kernel of it; not of those that it ends because it leaves."""
        if self.line is not None and not (self.resigning and isinstance(event, m.Exited)):
            self.line.send_up(event)

    # ------------------------------------------------------------------ going

    def kill_all(self) -> None:
        world = self.world
        for worker in self.workers:
            worker.doomed = True
            if worker.alive:
                world.push(world.now + world.delay(0.001, 0.02), None, world._killed, worker)
            elif not worker.born:
                worker.reaped = True

    def gone(self, worker: Worker) -> None:
        """One of its workers has been reaped."""
        if worker in self.workers:
            self.workers.remove(worker)
        if self.falling or self.resigning:
            self._when_empty()

    def _when_empty(self) -> None:
        self.workers = [worker for worker in self.workers if not worker.reaped]
        if self.workers:
            return
        if self.resigning:
            if self.line is not None:
                self.line.send_up(m.NodeLeft(self.index, self.session, "it was asked to end"))
            self.die()
        elif self.falling:
            self.falling = False
            self.greet()

    def resign(self) -> None:
        """Notice that the node will be taken away."""
        self.resigning = True
        self.kill_all()
        self._when_empty()

    def end(self) -> None:
        """It gives up, or the job is over: nothing of this node goes on."""
        self.kill_all()
        self.die()

    def die(self) -> None:
        """This process is gone, and with it, by the kernel, its workers."""
        if not self.alive:
            return
        self.alive, self.ended = False, True
        self.kill_all()
        line = self.line
        if line is not None:
            line.forget(farewell=self.resigning)
        for worker in self.world.workers.values():
            if worker.home is self and not worker.born:
                worker.reaped = True
        self.session, self.lease, self.line = 0, None, None
        self.world.checks.places_changed()
        self.world.is_it_over()
