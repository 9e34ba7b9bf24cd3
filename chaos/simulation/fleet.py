"""A job on several nodes in virtual time: the coordinator on node 0, a supervisor with a lease on each other.

What is modelled of the real shell: a session of messages in order that outlives its connections; a node that
ends its processes when its lease is over and comes back clean; workers that die with their supervisor;
probes between nodes at the time they are asked; and a coordinator whose death ends the job everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chaos.simulation.fleet_checks import FleetChecks
from chaos.simulation.group import CONNECT, TRANSFER
from chaos.simulation.network import Line, Network
from chaos.simulation.node_faults import NodeStriker
from chaos.simulation.post import Node
from chaos.simulation.progress import Sample
from chaos.simulation.worker import Worker
from chaos.simulation.world import LOOK_S, SLOWEST_MESSAGE_S, World
from recovery.core import messages as m
from recovery.core.coordinator import Coordinator, Phase
from recovery.core.door import Admitted, Hello
from recovery.core.fleet import FleetCoordinator
from recovery.core.member import Stage
from recovery.core.pace import pace_of

if TYPE_CHECKING:
    from random import Random

    from chaos.simulation.group import Group
    from chaos.simulation.plan import SimFault, SimPlan
    from chaos.simulation.post import Post
    from chaos.simulation.world import Machines

FRESH_S = 0.3
"""Progress of another node's ranks that is older than this accuses no one."""
REPEATED_GREETINGS = 0.03
"""Share of greetings of which a copy comes late."""


class FleetWorld(World):
    """One run with `plan.nodes` nodes."""

    checks: FleetChecks
    coordinator: FleetCoordinator
    agrees_in_band = True

    def __init__(self, plan: SimPlan, rng: Random, machines: Machines, *, record: bool = False) -> None:
        self.now = 0.0
        self.rng = rng
        self.network = Network(self, plan.nodes)
        self.coordinator_lost = False
        self.rough = False
        """Whether a fault of a node has come: from then on a healthy process may be taken for lost."""
        drift = 1 + plan.config().clock_drift
        self.nodes: list[Node] = []
        self.newest_line: dict[int, Line | None] = {}
        """The line of the session that counts at the coordinator, for each node."""
        super().__init__(plan, rng, machines, record=record)
        for index in range(plan.nodes):
            rate = 1.0 if index == 0 else 1 / drift + (drift - 1 / drift) * self._random()
            self.nodes.append(Node(self, index, rate, 1000 * self._random()))
        self.hub = self.nodes[0].post
        self.door = machines.door("first")
        self.door_nodes = self.coordinator.nodes
        self.node_striker = NodeStriker(self)
        self.push(0.0, None, self.tell, m.NodeJoined(0, 1))
        for node in self.nodes[1:]:
            self.push(self.delay(0.0, 0.05), node.post, node.post.greet)

    def _make_coordinator(self) -> Coordinator:
        return self.machines.fleet(self.config)

    def _make_checks(self) -> FleetChecks:
        return FleetChecks(self)

    # ------------------------------------------------------------------ the coordinator hears

    def tell(self, event: m.Event | m.NodeEvent) -> None:
        hub = self.nodes[0].post
        if not hub.alive:
            return
        if hub.held:
            hub.deferred.append((self.tell, event))
            return
        if self.seen is not None and isinstance(event, _NODE_EVENTS):
            standing = self.coordinator.nodes[event.node].standing.value
            self.seen.add((self.coordinator.phase.value, type(event).__name__, standing))
        self.checks.before(event)
        super().tell(event)
        if self.ended is None:
            self.checks.after(event)
            if isinstance(event, _NODE_EVENTS):
                self._arm()

    def _arm(self) -> None:
        if not self.nodes or (self.nodes[0].post.alive and not self.nodes[0].post.held):
            super()._arm()

    def tell_of(self, worker: Worker, event: m.Event) -> None:
        post: Post = worker.home
        if not post.leased:
            self.tell(event)
        elif worker.line is post.line:
            self.push(self.now, post, post.relay, event)

    def send_up(self, worker: Worker, message: Any) -> None:
        post: Post = worker.home
        if not post.leased:
            super().send_up(worker, message)
            return
        wait_s = self.delay(0.0002, 0.002) * worker.pace
        worker.last_up = max(self.now + min(wait_s, SLOWEST_MESSAGE_S), worker.last_up)
        self.push(worker.last_up, post, self._passed_up, (worker, message))

    def _passed_up(self, what: tuple[Worker, Any]) -> None:
        worker, message = what
        if not worker.reaped and worker.line is worker.home.line:
            worker.home.relay(message)

    def heard_of_node(self, line: Line, message: Any) -> None:
        """A message of a session has arrived at the coordinator's door."""
        hub = self.hub
        if hub.held:
            hub.deferred.append((lambda what: self.heard_of_node(*what), (line, message)))
            return
        if line is not self.newest_line.get(line.node) or not hub.alive:
            return  # of a session that is over
        if isinstance(message, tuple):
            number, samples = message
            line.post.samples = samples
            for sample in samples.values():
                sample.heard = self.now
            self.tell(m.NodeBeat(line.node, line.session, number))
        else:
            self.tell(message)

    # ------------------------------------------------------------------ greetings

    def greeting(self, post: Post, hello: Hello, number: int, local: float) -> None:
        """A supervisor asks to be let in. Without a way there it hears nothing."""
        what = (post, hello, number, local)
        if self.network.passes(post.index, 0):
            self.push(self.now + self.network.wait_s(post.index, 0), None, self._knocked, what)
        if self._random() < REPEATED_GREETINGS:
            self.push(self.now + 0.1 + 1.5 * self._random(), None, self._knocked, what)

    def _knocked(self, what: tuple[Post, Hello, int, float]) -> None:
        post, hello, number, local = what
        hub = self.hub
        if hub.held:
            hub.deferred.append((self._knocked, what))
            return
        if not hub.alive and self.door_nodes is self.coordinator.nodes:
            return  # nobody is there
        answer = self.door.knock(hello, self.door_nodes[hello.node], self.now)
        if isinstance(answer, Admitted):
            self.checks.admitted(post, hello, answer)
            if self.coordinator_lost and post.job:
                return  # a copy of its first greeting, to which nobody listens any more
            if self.coordinator_lost:
                self.push(self.now, post, lambda gone: gone.end(), post)  # a new job has it now, this one not
                return
        reply: Any = (number, local, self.door.job, answer, None)
        if isinstance(answer, Admitted):
            line = Line(self, post, answer.session, local + self.config.lease_s)
            reply = (number, local, self.door.job, answer, line)
            self.newest_line[post.index] = line
            self.network.lines = [one for one in self.newest_line.values() if one is not None]
            line.send_down(post.answered, reply)
        elif self.network.passes(0, post.index):
            self.push(self.now + self.network.wait_s(0, post.index), post, post.answered, reply)
        if isinstance(answer, Admitted) and not answer.resumed:
            self.note("node.session", node=post.index, session=answer.session)
            self.tell(m.NodeJoined(post.index, answer.session))

    # ------------------------------------------------------------------ what the network does to a group

    def apart(self, group: Group, number: int) -> bool:
        members, network = group.members, self.network
        if number == TRANSFER:
            members = group.parties
        places = sorted({worker.home.index for worker in members})
        if number == CONNECT:
            places = sorted({0, *places})  # addresses are exchanged over the coordinator
        if number in (CONNECT, TRANSFER):
            return any(not network.both_ways(a, b) for a in places for b in places if a < b)
        ring = [worker.home.index for worker in members]
        return any(not network.both_ways(a, b) for a, b in zip(ring, ring[1:] + ring[:1], strict=True))

    def hears_of(self, worker: Worker, group: Group, gone: Worker | None = None) -> bool:
        def hears(other: Worker) -> bool:
            here, there = worker.home, other.home
            if here is there:
                return True
            return bool(there.node.powered and self.network.passes(there.index, here.index))

        if gone is not None:
            return hears(gone)
        return any(hears(group.members[rank]) for rank in group.gone)

    def cut_changed(self) -> None:
        """Connections between members may carry again."""
        self.partition = frozenset({-1}) if self.network.cut else frozenset()
        for group in list(self.groups.values())[-2:]:
            group.unblocked()

    # ------------------------------------------------------------------ progress

    def _look(self, _: Any) -> None:
        coordinator = self.coordinator
        self._look_made = False
        hub = self.hub
        if self.ended is not None or coordinator.phase is not Phase.RUNNING or hub.held or not hub.alive:
            return
        self._look_made = True
        self.push(self.now + LOOK_S, None, self._look)
        if any(slot.status.value != "running" for slot in coordinator.slots):
            return
        members = [self.workers[slot.proc] for slot in coordinator.slots]
        read = [self._read(worker) for worker in members]
        known = [one for one in read if one is not None]
        if len(known) < len(read) or any(one.generation != coordinator.generation for one in known):
            return
        step_s = pace_of(one.step_s for one in known if one.warm)
        if step_s is not None and step_s != coordinator.step_s:
            self.tell(m.Pace(step_s))
        common = min(one.issued for one in known)
        whole = [one.progress(rank, common) for rank, one in enumerate(known)]
        verdict = self.machines.judge(whole, self.config, step_s, self.now)
        if verdict is not None:
            self.tell(
                m.Accused(verdict.proc, coordinator.generation, verdict.kind, verdict.detail, verdict.since)
            )

    def _read(self, worker: Worker) -> Sample | None:
        """Its counters as the coordinator knows them; None if it has heard nothing for long."""
        if not worker.home.leased:
            return Sample.of(worker)
        known = worker.home.samples.get(worker.proc)
        return known if known is not None and self.now - known.heard <= FRESH_S else None

    # ------------------------------------------------------------------ the coordinator acts

    def _start(self, action: m.Start) -> None:
        pace = 0.5 + 1.5 * self._random() if self.plan.schedule == "uniform" else self.striker.priority()
        worker = Worker(self, action.proc, action.rank, pace)
        line = self.newest_line.get(action.node)
        worker.line = line
        worker.home = self.nodes[0].post if line is None else line.post
        self.workers[action.proc] = worker
        if action.rank is None:
            self.checks.spare_started_on(action.node)
        else:
            self.checks.given(action.rank, action.proc)
        if line is not None:
            if line.closed:
                worker.reaped = True  # the node has left this session: nobody hears this
            line.send_down(line.post.start, worker)
            return
        self.hub.workers.append(worker)
        at = max(self.now, self.template_ready) + self.delay(0.01, 0.05)
        self.push(at, None, self.forked, worker)

    def forked(self, worker: Worker) -> None:
        if worker.reaped or not worker.home.alive or worker.home.line is not worker.line:
            worker.reaped = True
            return
        self._forked(worker)

    def send_down(self, worker: Worker, handler: Any, message: Any) -> None:
        line: Line | None = worker.line
        if line is None:
            super().send_down(worker, handler, message)
        elif line is self.newest_line.get(line.node):
            line.send_down(line.post.pass_on, (worker, handler, message))

    def _fence(self, action: m.Fence) -> None:
        worker = self.workers[action.proc]
        if worker.line is None:
            super()._fence(action)
            return
        self.checks.fenced(worker)
        self.troubles += 1
        worker.fenced = True
        self.note("fence", rank=worker.rank, proc=worker.proc, reason=action.reason)
        worker.line.send_down(worker.line.post.kill, worker)

    def _release(self, action: m.Release) -> None:
        worker = self.workers[action.proc]
        line: Line | None = worker.line
        self.open_generation = 0
        if line is None:
            self.release_at(worker.home, worker, action.generation)
        elif line is self.newest_line.get(line.node):
            line.send_down(line.post.release, (worker, action.generation))
        if action.generation > self._released:
            self._released = action.generation
            self.reached(worker, "group.release")

    def release_at(self, post: Post, worker: Worker, generation: int) -> None:
        """A release has come to the worker's node."""
        if post.open_generation and post.open_generation <= generation:
            closed = self.groups.get(post.open_generation)
            post.open_generation = 0
            if closed is not None:
                closed.over(post)
        group = worker.group
        if group is not None and worker.machine.stage is not Stage.CONNECTING:
            worker.cut = max(worker.cut, min(group.generation, generation))
        if group is not None and group.generation <= generation and not worker.deaf:
            group.release(worker)

    def _open(self, action: m.Open) -> None:
        self.hub.open_generation = action.generation
        super()._open(action)

    def _grant(self, action: m.Grant) -> None:
        line = self.newest_line.get(action.node)
        if line is None or line.session != action.session:
            return
        sent = line.sent.get(action.number, 0.0)
        line.proved_until = max(line.proved_until, sent + self.config.lease_s)
        line.send_down(line.post.granted, action.number)
        self.reached(None, "lease.grant")

    def _probe(self, action: m.Probe) -> None:
        self.checks.asked(action)
        for index in action.nodes:
            line = self.newest_line.get(index)
            what = (action.number, action.nodes)
            if index == 0:
                self.push(self.now, self.hub, self.hub.asked, what)
            elif line is not None:
                line.send_down(line.post.asked, what)
        self.reached(None, "node.probe")

    def reaches(self, index: int, number: int, nodes: tuple[int, ...]) -> m.Reached:
        """What a node finds now: those that answer, over connections that carry both ways."""
        peers = frozenset(
            other
            for other in nodes
            if other != index
            and self.network.both_ways(index, other)
            and self.nodes[other].post.alive
            and not self.nodes[other].post.held
        )
        self.checks.found(index, number, peers)
        self.reached(None, "node.answer")
        return m.Reached(index, number, peers)

    def _node_changed(self, action: m.NodeChanged) -> None:
        self.note(f"node.{action.standing}", node=action.node, reason=action.reason)
        self.checks.node_changed(action)
        if action.standing == "lost" and action.node:
            line = self.newest_line.get(action.node)
            if line is not None and line.session == action.session:
                self.newest_line[action.node] = None
        name = {"joined": "node.join", "evicted": "node.evict", "returned": "node.return"}
        self.reached(None, name.get(action.standing, "node.lost"))

    # ------------------------------------------------------------------ nodes end

    def _reap(self, what: tuple[Worker, int | None, int | None, str | None]) -> None:
        super()._reap(what)
        what[0].home.gone(what[0])
        self.is_it_over()

    def strike_node(self, fault: SimFault, at: Worker | None) -> float | None:
        return self.node_striker.strike(fault, at)

    def thaw(self, post: Post) -> None:
        """A supervisor runs again: what has come meanwhile waits in its sockets."""
        self.resume(post)
        if post is self.hub:
            self._arm()

    def lose_coordinator(self) -> None:
        """Its process is gone. Its connections break; every node finds out, or its lease ends."""
        self.coordinator_lost = True
        for node in self.nodes[1:]:
            self.push(self.now + self.delay(0.001, 0.1), node.post, node.post.greet)
        self.is_it_over()

    def return_coordinator(self, _: Any = None) -> None:
        """Another process takes its address, and knows nothing."""
        self.door = self.machines.door("second")
        empty = self.machines.fleet(self.config)
        empty.begin(self.now)
        self.door_nodes = empty.nodes

    def is_it_over(self) -> None:
        """Without its coordinator the job has ended when it has ended on every node."""
        if not self.coordinator_lost or self.ended is not None:
            return
        if any(node.post.alive and not node.post.stuck for node in self.nodes):
            return  # who stands still for ever ends nothing; its workers look at the lease themselves
        if any(worker.alive and not worker.home.stuck for worker in self.workers.values()):
            return
        self.ended = m.End(1, "coordinator lost", "every node has ended its part")
        self.note("job.end", exit_code=1, reason=self.ended.reason, detail=self.ended.detail)


_NODE_EVENTS = (m.NodeJoined, m.NodeBeat, m.NodeLeft, m.Reached)
FleetWorld.acts = {
    **World.acts,
    m.Start: FleetWorld._start,
    m.Fence: FleetWorld._fence,
    m.Release: FleetWorld._release,
    m.Open: FleetWorld._open,
    m.Grant: FleetWorld._grant,
    m.Probe: FleetWorld._probe,
    m.NodeChanged: FleetWorld._node_changed,
}
