"""What must be true besides where a job runs on several nodes: leases, reachability, placement, counting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.simulation.checks import Checks
from recovery.core import messages as m
from recovery.core import orders as o
from recovery.core.coordinator import Phase
from recovery.core.nodes import Standing

if TYPE_CHECKING:
    from chaos.simulation.fleet import FleetWorld
    from chaos.simulation.network import Line
    from chaos.simulation.post import Post
    from chaos.simulation.worker import Worker
    from recovery.core.door import Admitted, Hello

NAMES = (
    "commit_is_covered_by_a_lease",
    "rank_has_one_owner_that_may_act",
    "rank_is_placed_on_a_node_that_is_there",
    "generation_is_over_nodes_that_reach_each_other",
    "generation_has_enough_nodes",
    "node_holds_no_more_ranks_than_allowed",
    "node_loss_is_counted_once",
    "only_the_unreachable_are_evicted",
    "eviction_leaves_a_holder",
    "session_is_given_once",
    "session_begins_when_the_former_can_not_act",
    "sessions_of_an_earlier_start_are_refused",
    "spares_are_within_bounds_on_each_node",
    "few_nodes_end_the_job_only_when_they_are_few",
)
QUICK_SHARE = 0.2
"""A message may take this share of a lease, else the node can't keep it."""
RETURNS_S = 3.5
"""Nodes that are up and connected have a place in the job again after this."""


class FleetChecks(Checks):
    """`Checks`, and what several nodes add."""

    __slots__ = (
        "_detected",
        "_gone",
        "_put_out",
        "_restarts",
        "_was",
        "answers",
        "broke_at",
        "costs",
        "counted",
        "enough_since",
        "former_answers",
        "lost_with_node",
        "node_lost_late",
        "over",
        "probe",
        "sessions",
    )

    world: FleetWorld

    def __init__(self, world: FleetWorld) -> None:
        super().__init__(world)
        self.answers: dict[int, frozenset[int]] = {}
        """What each node found at the newest probe."""
        self.former_answers: dict[int, frozenset[int]] = {}
        self.probe = 0
        self.broke_at = 0
        """The newest probe when the last generation broke: it says nothing of what comes after."""
        self.over: set[tuple[int, int]] = set()
        """Sessions that the coordinator has given up: (node, session)."""
        self.lost_with_node: dict[int, tuple[int, int]] = {}
        self.counted: set[tuple[int, int]] = set()
        self.sessions: set[tuple[str, int]] = set()
        self.enough_since: float | None = 0.0
        self.node_lost_late = False
        self._was: Phase = Phase.GATHERING
        self._restarts = 0
        self._detected: list[m.Cause] = []
        self._gone = False
        self._put_out: list[int] = []
        """Nodes with state that are being evicted."""

    # ------------------------------------------------------------------ around each event

    def before(self, event: m.Event | m.NodeEvent) -> None:
        coordinator = self.world.coordinator
        self._was, self._restarts = coordinator.phase, coordinator.restarts
        self._detected, self._gone, self._put_out = [], False, []
        if isinstance(event, m.Exited) and self._was is Phase.LEAVING and event.code != 0:
            self.world.died_late = True  # it may have died before, unheard

    def acted(self, actions: list[m.Action]) -> None:
        super().acted(actions)
        for action in actions:
            if isinstance(action, m.Note) and action.name == "recovery.detect" and action.cause is not None:
                self._detected.append(action.cause)
            elif isinstance(action, m.NodeChanged) and action.standing in ("lost", "evicted"):
                self._gone = True
                if action.standing == "evicted" and any(
                    self._holds(worker) and worker.home.index == action.node for worker in self._live()
                ):
                    self._put_out.append(action.node)
        if self._was in (Phase.FORMING, Phase.RUNNING) and self._broken(actions):
            self.broke_at = self.probe

    def _broken(self, actions: list[m.Action]) -> bool:
        return any(type(action) in (m.Release, m.Fence) for action in actions)

    def after(self, event: m.Event | m.NodeEvent) -> None:
        if not self._gone:
            return
        # Before the first commit nothing is lost: the first state can be made anew.
        if self._put_out and self.highest and not any(self._holds(worker) for worker in self._live()):
            self.fail("eviction_leaves_a_holder", f"nodes {self._put_out} held the last of the state")
        extra = self.world.coordinator.restarts - self._restarts - len(self._detected)
        told = [cause.node for cause in self._detected if cause.node is not None]
        procs = [cause.proc for cause in self._detected if cause.proc in self.lost_with_node]
        if extra > 0 or len(told) != len(set(told)) or (procs and isinstance(event, m.NodeEvent)):
            self.fail(
                "node_loss_is_counted_once", f"{event} is told as {self._detected}, {extra} more counted"
            )

    # ------------------------------------------------------------------ nodes and sessions

    def admitted(self, post: Post, hello: Hello, answer: Admitted) -> None:
        """The door has let a supervisor in."""
        if hello.job not in ("", self.world.door.job):
            self.fail("sessions_of_an_earlier_start_are_refused", f"node {post.index}: {hello} is let in")
        if answer.resumed or self.world.coordinator_lost:
            return  # whoever comes new to a new start of the job has nothing to do with this one
        if (self.world.door.job, answer.session) in self.sessions:
            self.fail("session_is_given_once", f"session {answer.session} is given again")
        self.sessions.add((self.world.door.job, answer.session))
        former = self.world.newest_line.get(post.index)
        if former is not None and self._line_may_act(former):
            self.fail(
                "session_begins_when_the_former_can_not_act",
                f"node {post.index} gets session {answer.session} while {former.session} may act",
            )

    def _line_may_act(self, line: object) -> bool:
        """Whether a process of this session could still do something that counts."""
        return any(worker.line is line and self._may_act(worker) for worker in self.world.workers.values())

    def node_changed(self, action: m.NodeChanged) -> None:
        coordinator = self.world.coordinator
        key = (action.node, action.session)
        if action.standing == "lost":
            self.over.add(key)
        if action.standing in ("lost", "evicted"):
            # Nodes that are put out together are one regroup, each that is lost is a loss of its own.
            together = key if action.standing == "lost" else (-1, self.probe)
            for worker in self.owners.values():
                session = worker.line.session if worker.line is not None else 1
                if (worker.home.index, session) == key:
                    self.lost_with_node.setdefault(worker.proc, together)
            self.node_lost_late |= coordinator.phase is Phase.LEAVING or coordinator.phase is Phase.ENDED
        if action.standing == "evicted":
            # What it is put out for breaks the generation, and that asks everyone anew.
            known = self.answers or self.former_answers
            if not any(
                action.node in (one, other) and other not in known[one]
                for one in known
                for other in known
                if one != other
            ):
                self.fail("only_the_unreachable_are_evicted", f"node {action.node}: {action.reason}; {known}")

    # ------------------------------------------------------------------ probes

    def asked(self, action: m.Probe) -> None:
        self.probe, self.former_answers, self.answers = action.number, self.answers, {}

    def found(self, index: int, number: int, peers: frozenset[int]) -> None:
        if number == self.probe:
            self.answers[index] = peers

    def fenced(self, worker: Worker) -> None:
        if not self.world.rough:
            super().fenced(worker)

    # ------------------------------------------------------------------ who may act

    def _may_act(self, former: Worker) -> bool:
        """Not dead, and its node's lease not over by what the coordinator has granted."""
        if former.reaped:
            return False
        line = former.line
        return line is None or former.home.node.local() < line.proved_until

    def _costs_a_restart(self, former: Worker) -> bool:
        key = self.lost_with_node.get(former.proc)
        if key is None:
            return True
        fresh = key not in self.counted
        self.counted.add(key)
        return fresh

    def _told(self, proc: int) -> int:
        times = self.causes[proc]
        return 1 if proc in self.lost_with_node and times < 2 else times

    def _live(self) -> list[Worker]:
        return [worker for worker in super()._live() if self._reachable(worker)]

    def _holds(self, worker: Worker) -> bool:
        return worker.machine.version is not None and not worker.fenced

    def _reachable(self, worker: Worker) -> bool:
        line: Line | None = worker.line
        return line is None or (line is self.world.newest_line.get(line.node) and not line.closed)

    # ------------------------------------------------------------------ placement

    def given(self, rank: int, proc: int) -> None:
        world = self.world
        former, worker = self.owners.get(rank), self.started(rank, proc)
        if former is not None and not former.reaped and self._may_act(former) and former.line is not None:
            self.fail(
                "rank_has_one_owner_that_may_act",
                f"rank {rank} goes to process {proc}; process {former.proc} on node {former.home.index} has a"
                " lease",
            )
        super().given(rank, proc)
        line = worker.line
        index = worker.home.index
        standing = world.coordinator.nodes[index].standing
        if standing is not Standing.PRESENT or (line is not None and (index, line.session) in self.over):
            self.fail(
                "rank_is_placed_on_a_node_that_is_there", f"rank {rank} goes to node {index}: {standing}"
            )
        limit = world.config.max_per_node
        if limit is not None:
            held = [w for w in self.owners.values() if w.home.index == index and not w.reaped]
            if len(held) > limit:
                self.fail("node_holds_no_more_ranks_than_allowed", f"node {index}: {len(held)} of {limit}")

    def spare_started_on(self, index: int) -> None:
        """One that its node has the order to kill is no spare any more, though its death may take a while."""
        world = self.world
        self.spare_starts += 1
        line = world.newest_line.get(index)
        spares = (w for w in world.workers.values() if w.rank is None and not (w.reaped or w.doomed))
        parked = sum(1 for w in spares if w.home.index == index and w.line is line)
        if parked > world.config.spares:
            self.fail("spares_are_within_bounds_on_each_node", f"{parked} spares on node {index}")

    # ------------------------------------------------------------------ generations

    def opened(self, opening: m.Open) -> None:
        super().opened(opening)
        world = self.world
        places = {world.workers[member.proc].home.index for member in opening.members}
        answers = self.answers
        for one in places:
            if self.probe <= self.broke_at or one not in answers or not places - {one} <= answers[one]:
                self.fail(
                    "generation_is_over_nodes_that_reach_each_other",
                    f"nodes {sorted(places)}, probe {self.probe} (broken at {self.broke_at}): {answers}",
                )
        there = {node.index for node in world.coordinator.nodes if node.standing is Standing.PRESENT}
        answered = there & answers.keys()
        if len(answered) < world.config.min_nodes:
            detail = f"{sorted(answered)} of {world.config.nodes} nodes, {world.config.min_nodes} needed"
            self.fail("generation_has_enough_nodes", detail)

    def committed(self, worker: Worker, action: o.Commit) -> None:
        line = worker.line
        if line is not None:
            local = worker.home.node.local()
            if local >= line.proved_until or (line.node, line.session) in self.over:
                self.fail(
                    "commit_is_covered_by_a_lease",
                    f"process {worker.proc} (rank {worker.rank}, node {line.node}) commits"
                    f" {local - line.proved_until:.3f} s after its lease was over",
                )
        super().committed(worker, action)

    # ------------------------------------------------------------------ the end

    def places_changed(self) -> None:
        """A node or a link between nodes has gone or come: are there enough of them?"""
        world = self.world
        network = world.network
        near = [
            node.index
            for node in world.nodes
            if node.post.alive
            and not node.post.held
            and (not node.index or network.both_ways(0, node.index))
            and network.slow_s[0] + network.slow_s[node.index] < QUICK_SHARE * world.config.lease_s
        ]
        whole = [a for a in near if all(network.both_ways(a, b) for b in near)]
        limit = world.config.max_per_node
        room = limit is None or limit * len(whole) >= world.plan.world
        # The first generation is that of all nodes.
        needed = world.config.min_nodes if world.coordinator.started else world.config.nodes
        if len(whole) < needed or not room:
            self.enough_since = None
        elif self.enough_since is None:
            self.enough_since = world.now

    def _true_reason(self, end: m.End) -> bool:
        if end.reason == "too few nodes":
            since = self.enough_since
            if since is not None and self.world.now - max(since, self.world.quiet_since) > RETURNS_S:
                self.fail(
                    "few_nodes_end_the_job_only_when_they_are_few", f"enough since {since:.2f}: {end.detail}"
                )
            return True
        if end.reason == "deterministic failure" and (
            "node_lost" in end.detail or "unreachable" in end.detail
        ):
            return False
        if end.reason == "failed after the last step" and self.node_lost_late:
            return True
        return super()._true_reason(end)
