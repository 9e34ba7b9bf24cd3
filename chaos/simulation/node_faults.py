"""What faults do to a simulated node, its supervisor, its clock and its links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chaos.simulation.network import Pair
from chaos.simulation.plan import NODE_NAMES, SimFault
from chaos.simulation.post import Post
from injectors.net.shapes import parse, partition

if TYPE_CHECKING:
    from chaos.simulation.fleet import FleetWorld
    from chaos.simulation.post import Node
    from chaos.simulation.worker import Worker

GRACE_S = 0.2
RECONNECT_S = (0.02, 0.3)
OF_PROCESSES = ("process.kill", "process.stop")
"""With `where: {"node": n}` these mean the node's supervisor, else the process of a rank."""
SLOWER = 3.0
AT_THE_COORDINATOR_S = 2.0


class NodeStriker:
    """Carries out the faults of nodes."""

    def __init__(self, world: FleetWorld) -> None:
        self.world = world

    def strike(self, fault: SimFault, at: Worker | None) -> float | None:
        """How long it lasts, in seconds; None if it is not a fault of a node."""
        if fault.name not in NODE_NAMES or (fault.name in OF_PROCESSES and "node" not in fault.where):
            return None
        world, node = self.world, self._aim(fault, at)
        self._record(fault, node)
        if node is None:
            return 0.0
        for worker in world.workers.values():
            worker.struck.add(fault.name)
        world.rough = True
        lasts_s: float = _STRIKES[fault.name](self, node, fault)
        world.checks.places_changed()
        return lasts_s

    def _aim(self, fault: SimFault, at: Worker | None) -> Node | None:
        world = self.world
        index = fault.where.get("node")
        if index is not None:
            return world.nodes[int(index)]
        worker = world.striker._victim(fault, at)
        return world.nodes[worker.home.index] if worker is not None else None

    def _record(self, fault: SimFault, node: Node | None) -> None:
        world = self.world
        index = node.index if node is not None else None
        world.note("fault.fired", fault=fault.id, name=fault.name, node=index)
        world.fired.append((fault, None))
        if world.seen is not None and node is not None:
            world.seen.add(("node fault " + world.coordinator.phase.value, fault.name, where(world, node)))
        if "fault." + fault.id in world.striker.watched:
            world.striker.reached(None, "fault." + fault.id, None)

    # ------------------------------------------------------------------ nodes

    def _kill(self, node: Node, fault: SimFault) -> float:
        """The power fails: nobody hears of it, and the memory is gone. It may be switched on again."""
        world = self.world
        if not node.powered:
            return 0.0
        node.powered = False
        post = node.post
        for worker in [w for w in world.workers.values() if w.home is post]:
            if worker.alive:
                worker.alive = False
                if worker.group is not None:
                    worker.group.leave(worker)
            worker.reaped = True
        post.workers = []
        self._end_post(post)
        return self._return_later(node, fault)

    def _end_post(self, post: Post) -> None:
        if not post.alive:
            return
        post.die()
        if not post.leased:
            self.world.lose_coordinator()

    def _return_later(self, node: Node, fault: SimFault) -> float:
        if fault.duration_s is None:
            return 0.0
        self.world.push(self.world.now + fault.duration_s, None, self._return, node)
        return fault.duration_s

    def _return(self, node: Node, _: SimFault | None = None) -> float:
        """A new supervisor on the node, which knows of nothing."""
        world = self.world
        if node.post.alive:
            return 0.0
        if node.index == 0:
            world.return_coordinator()
            return 0.0
        if world.coordinator_lost:
            return 0.0
        node.powered = True
        node.post = Post(world, node)
        node.post.greet()
        world.checks.places_changed()
        return 0.0

    def _preempt(self, node: Node, fault: SimFault) -> float:
        """Notice, a grace, and then it is switched off."""
        grace_s = float(fault.params.get("grace_s", GRACE_S))
        if node.index and node.post.alive and not node.post.resigning:
            self.world.push(self.world.now, node.post, lambda post: post.resign(), node.post)
        self.world.push(self.world.now + grace_s, None, self._switch_off, (node, fault))
        return grace_s + (fault.duration_s or 0.0)

    def _switch_off(self, what: tuple[Node, SimFault]) -> None:
        self._kill(*what)
        self.world.checks.places_changed()

    def _freeze(self, node: Node, fault: SimFault) -> float:
        """Everything on it stands still."""
        world, post = self.world, node.post
        lasts_s = self._lasting(post, fault)
        workers = [w for w in world.workers.values() if w.home is post and w.alive]
        for worker in workers:
            world.hold(worker)
        self._hold(post, lasts_s)
        if lasts_s is not None:
            world.push(world.now + lasts_s, None, self._thaw_workers, workers)
        return lasts_s or 0.0

    def _thaw_workers(self, workers: list[Worker]) -> None:
        for worker in workers:
            self.world.resume(worker)

    def _stop_supervisor(self, node: Node, fault: SimFault) -> float:
        lasts_s = self._lasting(node.post, fault)
        self._hold(node.post, lasts_s)
        return lasts_s or 0.0

    def _lasting(self, post: Post, fault: SimFault) -> float | None:
        """A coordinator that stands still for ever is a job that does."""
        return fault.duration_s if post.leased or fault.duration_s is not None else AT_THE_COORDINATOR_S

    def _hold(self, post: Post, lasts_s: float | None) -> None:
        world = self.world
        post.held += 1
        if lasts_s is not None:
            world.push(world.now + lasts_s, None, self._thaw, post)
        elif post.leased:
            post.stuck = True
            world.is_it_over()

    def _thaw(self, post: Post) -> None:
        self.world.thaw(post)
        self.world.checks.places_changed()

    def _kill_supervisor(self, node: Node, fault: SimFault) -> float:
        self._end_post(node.post)
        return self._return_later(node, fault)

    # ------------------------------------------------------------------ links

    def _partition(self, node: Node, fault: SimFault) -> float:
        everyone = range(len(self.world.nodes))
        shape = str(fault.params.get("shape", "isolate"))
        pairs = partition(shape, everyone, [node.index], str(fault.params.get("pairs", "")))
        return self._sever(sorted(pairs), fault.duration_s)

    def _isolate(self, node: Node, fault: SimFault) -> float:
        everyone = range(len(self.world.nodes))
        return self._sever(sorted(partition("isolate", everyone, [node.index])), fault.duration_s)

    def _one_way(self, node: Node, fault: SimFault) -> float:
        """What it sends to the others is dropped, or the pairs that are named."""
        everyone = range(len(self.world.nodes))
        named = parse(str(fault.params.get("pairs", "")), ">", everyone)
        pairs = sorted(named) or [(node.index, other) for other in everyone if other != node.index]
        return self._sever(pairs, fault.duration_s)

    def _sever(self, pairs: list[Pair], lasts_s: float | None) -> float:
        world = self.world
        world.network.sever(pairs)
        world.cut_changed()
        if lasts_s is None:
            return 0.0
        world.push(world.now + lasts_s, None, self._heal, pairs)
        return lasts_s

    def _heal(self, pairs: list[Pair]) -> None:
        world = self.world
        world.network.heal(pairs)
        world.cut_changed()
        world.checks.places_changed()

    def _delay(self, node: Node, fault: SimFault) -> float:
        slow_s = float(fault.params.get("delay_s", 0.05))
        self.world.network.slow_s[node.index] += slow_s
        lasts_s = fault.duration_s or 1.0
        self.world.push(self.world.now + lasts_s, None, self._faster, (node.index, slow_s))
        return lasts_s

    def _faster(self, what: tuple[int, float]) -> None:
        index, slow_s = what
        self.world.network.slow_s[index] = max(0.0, self.world.network.slow_s[index] - slow_s)
        self.world.checks.places_changed()

    def _loss(self, node: Node, fault: SimFault) -> float:
        self.world.network.lossy[node.index] += 1
        lasts_s = fault.duration_s or 1.0
        self.world.push(self.world.now + lasts_s, None, self._lossless, node.index)
        return lasts_s

    def _lossless(self, index: int) -> None:
        self.world.network.lossy[index] -= 1

    def _reset(self, node: Node, fault: SimFault) -> float:
        """Its connections break: the session goes on over new ones, the generation does not."""
        world = self.world
        until = world.now + world.delay(*RECONNECT_S)
        lines = world.network.lines if node.index == 0 else [world.newest_line.get(node.index)]
        for line in lines:
            if line is not None:
                line.break_until(until)
        group = world.groups.get(world.coordinator.generation)
        for worker in group.members if group is not None else ():
            if group is not None and (worker.home.index == node.index or node.index == 0):
                group._reset(worker)
        return until - world.now

    # ------------------------------------------------------------------ clocks and load

    def _drift(self, node: Node, fault: SimFault) -> float:
        """From now on its clock runs as slowly, or as fast, as is allowed."""
        if node.index:
            most = 1 + self.world.config.clock_drift
            node.run_at(1 / most if fault.params.get("rate", "slow") == "slow" else most)
        return 0.0

    def _throttle(self, node: Node, fault: SimFault) -> float:
        world = self.world
        slowed = [w for w in world.workers.values() if w.home is node.post and w.alive]
        for worker in slowed:
            worker.pace *= SLOWER
        lasts_s = fault.duration_s or 1.0
        world.push(world.now + lasts_s, None, self._unthrottle, slowed)
        return lasts_s

    def _unthrottle(self, slowed: list[Worker]) -> None:
        for worker in slowed:
            worker.pace /= SLOWER


def where(world: FleetWorld, node: Node) -> str:
    """What a node is to the job: a row of the coverage table."""
    if node.index == 0:
        return "the coordinator's"
    known = world.coordinator.nodes[node.index]
    line = world.newest_line.get(node.index)
    ranks = any(w.home is node.post and w.rank is not None and not w.reaped for w in world.workers.values())
    if not node.post.alive:
        return "down, not yet missed" if line is not None else "down"
    if node.post.session == 0 or line is None or node.post.line is not line:
        return "without session, lease runs" if line is not None else "without session"
    if any(not world.network.both_ways(0, other) for other in (node.index,)):
        return "cut off, lease runs"
    if known.standing.value == "trial":
        return "on trial"
    return "with ranks" if ranks else "present, no ranks"


ROWS = (
    *("the coordinator's", "with ranks", "present, no ranks", "on trial", "cut off, lease runs"),
    *("without session, lease runs", "without session", "down, not yet missed", "down"),
)
_STRIKES: dict[str, Any] = {
    "node.kill": NodeStriker._kill,
    "node.preempt": NodeStriker._preempt,
    "node.isolate": NodeStriker._isolate,
    "node.return": NodeStriker._return,
    "node.freeze": NodeStriker._freeze,
    "process.kill": NodeStriker._kill_supervisor,
    "process.stop": NodeStriker._stop_supervisor,
    "net.partition": NodeStriker._partition,
    "net.drop_one_way": NodeStriker._one_way,
    "net.delay": NodeStriker._delay,
    "net.loss": NodeStriker._loss,
    "net.reset": NodeStriker._reset,
    "host.cpu_throttle": NodeStriker._throttle,
    "clock.drift": NodeStriker._drift,
}
