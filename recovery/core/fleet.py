"""The coordinator of a job on several nodes: leases, reachability, and where a rank is placed.

Rules it adds
- What a node's lease covers is taken for dead only when the lease is surely over, by the slowest clock
  allowed, or when the node itself says that it has ended everything. A rank moves only then.
- A generation opens only over nodes that have all said, after the last break, that they reach each other.
  Who has not answered is asked again; who can't be reached by the others gets no rank until it can.
- A rank that looks late is fenced only when all nodes have said that they reach each other.
- No generation opens, and no process is started, with fewer nodes than `min_nodes`.
- Of nodes that can't reach each other, the ones that hold state are not all put out. Nobody is put out by
  one probe: who has died since it answered is silent at the second.
- What is overdue by the clock comes before what is heard of a node.
- A node lost is one loss, however many ranks it held.

Node 0 is the coordinator's own: it has no lease, the two die together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from recovery.core import messages as m
from recovery.core.config import Config
from recovery.core.coordinator import Coordinator
from recovery.core.nodes import Node, Standing, broken_links, place, to_keep
from recovery.core.slots import IN_GENERATION, Phase, Slot, Status

KILLED = 9
SILENT_BEATS = 3


class FleetCoordinator(Coordinator):
    """`Coordinator` for `config.nodes` nodes. Starts once every node has joined."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.nodes = [Node(index) for index in range(config.nodes)]
        self.node_of: dict[int, int] = {}
        """proc -> the node that it was started on, for every process that may still act."""
        self.probe = 0
        self.started = False
        self._asked: set[int] | None = None
        """Whom the newest probe was sent to; None once it has been concluded."""
        self._reached: dict[int, frozenset[int]] = {}
        self._adopting: frozenset[int] = frozenset()
        """The ranks that were to adopt the state in the newest generation."""
        self._suspect: m.Accused | None = None
        """A rank that is late, while the nodes are asked whether it is the network."""
        self._doubted: set[tuple[int, int]] = set()
        """Links between present nodes that were broken at the last probe."""
        self._sure: frozenset[int] = frozenset()
        """Those who reach each other by the newest probe that was concluded."""
        self._probe_by = float("inf")
        self._reprobe_at = float("inf")
        self._short_by = float("inf")
        """When the job gives up waiting for nodes."""

    # ------------------------------------------------------------------ entry points

    def begin(self, now: float) -> list[m.Action]:
        """Wait for the nodes; ranks are started when all of them are there and reach each other."""
        self._short_by = now + self.config.node_wait_s
        return []

    def handle(self, event: m.Event | m.NodeEvent, now: float) -> list[m.Action]:
        if self.phase is Phase.ENDED:
            return []
        if not isinstance(event, m.NodeEvent):
            return super().handle(event, now)
        # Time first: to a coordinator that stood still, words of before its pause are no news of now.
        actions = self._by_time(now, self._told_lost(event))
        if actions and isinstance(actions[-1], m.End):
            return actions
        match event:
            case m.NodeJoined():
                actions += self._joined(event, now)
            case m.NodeBeat():
                actions += self._beat(event, now)
            case m.Reached():
                actions += self._heard_of_probe(event, now)
        return actions

    def due(self) -> float:
        if self.phase is Phase.ENDED:
            return float("inf")
        mine = (self._probe_by, self._reprobe_at, self._short_by, *(node.dead_by for node in self.nodes))
        return min(super().due(), *mine)

    # ------------------------------------------------------------------ nodes come and go

    def _current(self, index: int, session: int) -> bool:
        node = self.nodes[index]
        return node.standing is not Standing.ABSENT and node.session == session

    def _told_lost(self, event: m.NodeEvent) -> dict[int, str]:
        """The node that an event says is lost, and why."""
        match event:
            case m.NodeLeft(node=index, session=session, reason=reason) if self._current(index, session):
                return {index: reason}
            case m.NodeJoined(node=index, session=session):
                node = self.nodes[index]
                if node.standing is not Standing.ABSENT and session > node.session:
                    return {index: "it has begun anew"}
        return {}

    def _joined(self, event: m.NodeJoined, now: float) -> list[m.Action]:
        node = self.nodes[event.node]
        if event.session <= node.session:
            return []  # told before
        node.standing, node.session, node.heard = Standing.TRIAL, event.session, now
        node.dead_by = self._lease_end(node, now)
        if not self.started and any(n.standing is Standing.ABSENT for n in self.nodes):
            return []
        return self._ask(now)

    def _lease_end(self, node: Node, now: float) -> float:
        if node.index == 0:
            return float("inf")
        return now + self.config.lease_s * (1 + self.config.clock_drift)

    def _beat(self, event: m.NodeBeat, now: float) -> list[m.Action]:
        if not self._current(event.node, event.session):
            return []
        node = self.nodes[event.node]
        node.heard, node.dead_by = now, self._lease_end(node, now)
        return [m.Grant(event.node, event.session, event.number)]

    def _lost(self, gone: dict[int, str], now: float) -> list[m.Action]:
        """Nothing of these nodes acts any more: their ranks are free. `gone` says why, for each."""
        actions: list[m.Action] = []
        self._sure -= frozenset(gone)
        # All of them first: what one gives up must not be placed on another.
        for index, reason in gone.items():
            node = self.nodes[index]
            node.standing, node.dead_by = Standing.ABSENT, float("inf")
            actions.append(m.NodeChanged(index, "lost", reason, node.session))
        for proc in [proc for proc, where in self.node_of.items() if where in gone]:
            self.spares.pop(proc, None)
            self.dying_spares.discard(proc)
        hit = [slot for slot in self.slots if any(self._is_on(slot, index) for index in gone)]
        if hit and self.phase is Phase.LEAVING:
            where = self.node_of[hit[0].proc]
            said = f"node {where} was lost ({gone[where]}) before rank {hit[0].rank} had ended"
            return [*actions, *self._end(1, "failed after the last step", said)]
        for index, reason in gone.items():
            actions += self._count_loss(self.nodes[index], reason, now)
            if self.phase is Phase.ENDED:
                return actions
        for slot in hit:
            actions += self._exited(slot, m.Exited(slot.proc, None, KILLED), now)
            if self.phase is Phase.ENDED:
                return actions
        self.node_of = {proc: where for proc, where in self.node_of.items() if where not in gone}
        return [*actions, *self._without(gone, now)]

    def _count_loss(self, node: Node, reason: str, now: float) -> list[m.Action]:
        """One cause for all its ranks; none for those whose loss is known already."""
        mine = [slot for slot in self.slots if self._is_on(slot, node.index)]
        alive = [slot for slot in mine if slot.status is not Status.DYING]
        if not alive:
            return []
        for slot in alive:
            self._doom(slot)
        ranks = ", ".join(str(slot.rank) for slot in alive)
        cause = m.Cause(None, "node_lost", f"node {node.index}: {reason}; ranks {ranks}", node=node.index)
        return self._interrupt(cause, node.heard, now)

    def _without(self, gone: Iterable[int], now: float) -> list[m.Action]:
        """Nobody waits for the answer of a node that is gone."""
        if self._asked is None:
            return []
        self._asked -= set(gone)
        return self._conclude(now) if self._reached.keys() >= self._asked else []

    def _is_on(self, slot: Slot, index: int) -> bool:
        owned = slot.status not in (Status.VACANT, Status.LEFT)
        return owned and self.node_of.get(slot.proc) == index

    def _evict(self, node: Node, links: set[tuple[int, int]]) -> list[m.Action]:
        """Others can't reach it, so it can be in no generation with them. It keeps its session."""
        node.standing = Standing.TRIAL
        peers = sorted({other for link in links if node.index in link for other in link} - {node.index})
        reason = f"node {node.index} and {', '.join(f'node {peer}' for peer in peers)} can't reach each other"
        actions: list[m.Action] = [m.NodeChanged(node.index, "evicted", reason, node.session)]
        for slot in self.slots:
            if self._is_on(slot, node.index) and slot.status is not Status.DYING:
                self._doom(slot)
                actions.append(m.Fence(slot.proc, f"unreachable: {reason}"))
        for proc in [proc for proc in self.spares if self.node_of.get(proc) == node.index]:
            del self.spares[proc]
            self.dying_spares.add(proc)
            actions.append(m.Fence(proc, f"unreachable: {reason}"))
        return actions

    # ------------------------------------------------------------------ who reaches whom

    def _ask(self, now: float) -> list[m.Action]:
        """Ask everyone who has a session. Until that is concluded, nothing is opened."""
        self.probe += 1
        self._asked = {node.index for node in self.nodes if node.standing is not Standing.ABSENT}
        self._reached = {}
        self._probe_by, self._reprobe_at = now + self.config.probe_limit_s, float("inf")
        return [m.Probe(self.probe, tuple(sorted(self._asked)))]

    def _heard_of_probe(self, event: m.Reached, now: float) -> list[m.Action]:
        if event.probe != self.probe or self._asked is None or event.node not in self._asked:
            return []
        self._reached[event.node] = event.peers
        return self._conclude(now) if self._reached.keys() >= self._asked else []

    def _conclude(self, now: float) -> list[m.Action]:
        self._asked, self._probe_by = None, float("inf")
        links = broken_links(self._reached)
        standing = {node.index: node.standing for node in self.nodes}
        present = {index for index, s in standing.items() if s is Standing.PRESENT}
        trial = {index for index in self._reached if standing[index] is Standing.TRIAL}
        suspect, self._suspect = self._suspect, None
        # While a generation runs well, its own traffic says more than a probe: nobody is put out of it.
        troubled = self.phase is Phase.GATHERING or suspect is not None
        judged = links if troubled else {link for link in links if set(link) & trial}
        between = {link for link in judged if set(link) <= present}
        doubted, self._doubted = self._doubted, between
        if between - doubted:
            self._suspect = suspect
            return self._ask(now)
        kept = to_keep(present, trial, judged, self._holding())
        self._sure = frozenset(kept & self._reached.keys())
        actions: list[m.Action] = []
        gone = [node for node in self.nodes if node.index in present - kept]
        if gone:
            why = "; ".join(f"{one} and {other}" for one, other in sorted(links))
            cause = m.Cause(
                None, "unreachable", f"nodes that can't reach each other: {why}", node=gone[0].index
            )
            actions += self._interrupt(cause, None, now)
            if self.phase is Phase.ENDED:
                return actions
        for node in gone:
            actions += self._evict(node, links)
        for index in sorted(kept - present):
            node = self.nodes[index]
            node.standing = Standing.PRESENT
            standing_now = "returned" if node.was_present else "joined"
            actions.append(m.NodeChanged(index, standing_now, "", node.session))
            node.was_present = True
        if any(node.standing is Standing.TRIAL for node in self.nodes) or kept - self._sure:
            self._reprobe_at = now + self.config.reprobe_s
        if not self.started:
            return [*actions, *self._start_all(now)]
        actions += self._place_vacant(now)
        if self.phase is Phase.RUNNING and self.healing is None:
            actions += self._refill_spares()
        # Nobody is accused while some node is silent: it may be the one that the others wait for.
        if suspect is not None and not gone and present <= self._reached.keys():
            slot = self._by_proc.get(suspect.proc) if suspect.proc is not None else None
            actions += super()._accused(slot, suspect, now) if slot is not None else []
        return [*actions, *self._when_all_ready(now)]

    def _accused(self, slot: Slot, event: m.Accused, now: float) -> list[m.Action]:
        """Who waits for data that a broken link does not bring looks late: the nodes are asked first."""
        if event.kind != "hang" or event.generation != self.generation or slot.status not in IN_GENERATION:
            return super()._accused(slot, event, now)
        self._suspect = event
        return [] if self._asked is not None else self._ask(now)

    def _holding(self) -> set[int]:
        """The nodes on which some rank surely holds state: who was adopting it when it broke may not."""
        return {
            self.node_of[slot.proc]
            for slot in self.slots
            if slot.holds and slot.proc in self.node_of and not self._half_adopted(slot)
        }

    def _half_adopted(self, slot: Slot) -> bool:
        return slot.rank in self._adopting and slot.status in (Status.FORMING, Status.RETURNING)

    def _interrupt(self, cause: m.Cause, since: float | None, now: float) -> list[m.Action]:
        before = self.phase
        actions = super()._interrupt(cause, since, now)
        broken = before in (Phase.FORMING, Phase.RUNNING) and self.phase is Phase.GATHERING
        if not broken:
            return actions
        self._doubted = set()
        return [*actions, *self._ask(now)]

    def _open(self, now: float) -> list[m.Action]:
        if self._asked is not None:
            return []
        if len(self._sure) < self.config.min_nodes:
            self._short_by = min(self._short_by, now + self.config.node_wait_s)
            return []
        # Who has not answered is asked again, until its lease is over.
        if not {self.node_of[slot.proc] for slot in self.slots} <= self._sure:
            return []
        actions = super()._open(now)
        if isinstance(actions[-1], m.Open):
            self._adopting = frozenset(actions[-1].receivers)
        return actions

    # ------------------------------------------------------------------ where ranks live

    @property
    def _present(self) -> list[int]:
        return [node.index for node in self.nodes if node.standing is Standing.PRESENT]

    def _too_few(self) -> bool:
        return len(self._present) < self.config.min_nodes

    def _start_all(self, now: float) -> list[m.Action]:
        if len(self._present) < self.config.nodes:
            return []
        self.started, self._short_by = True, float("inf")
        per_node = -(-self.config.world_size // self.config.nodes)
        return [action for slot in self.slots for action in self._start(slot, now, slot.rank // per_node)]

    def _start(self, slot: Slot, now: float, node: int = 0) -> list[m.Action]:
        actions = super()._start(slot, now, node)
        self.node_of[slot.proc] = node
        return actions

    def _replace(self, slot: Slot, now: float) -> list[m.Action]:
        """A process on the node where the rank was, else where there is a spare, else where there is room.

        A rank moves only to a node that is known to reach the others.
        """
        home = self.node_of.pop(slot.proc, None)
        self._by_proc.pop(slot.proc, None)
        slot.proc = -1
        known = self._sure if self._asked is None else frozenset()
        load = {node: 0 for node in self._present if node == home or node in known}
        load.update(
            (node, count)
            for node, count in Counter(self.node_of.get(other.proc) for other in self.slots).items()
            if node in load
        )
        spares = {
            node: proc
            for proc, stopped in reversed(self.spares.items())
            if not stopped and (node := self.node_of.get(proc)) is not None
        }
        where = None if self._too_few() else place(home, load, spares.keys() & load, self.config.max_per_node)
        if where is None:
            self._short_by = min(self._short_by, now + self.config.node_wait_s)
            return []
        node, has_spare = where
        return self._promote(slot, spares[node], now) if has_spare else self._start(slot, now, node)

    def _place_vacant(self, now: float) -> list[m.Action]:
        vacant = [slot for slot in self.slots if slot.status is Status.VACANT]
        actions = [action for slot in vacant for action in self._replace(slot, now)]
        if not self._too_few() and not self._count[Status.VACANT]:
            self._short_by = float("inf")
        elif self.phase is Phase.GATHERING:
            self._short_by = min(self._short_by, now + self.config.node_wait_s)
        return actions

    def _refill_spares(self) -> list[m.Action]:
        """`config.spares` waiting processes on each node."""
        if self.spare_failures > self.config.max_same_failure:
            return []
        actions: list[m.Action] = []
        waiting = Counter(self.node_of[proc] for proc in self.spares)
        for node in self._present:
            for _ in range(self.config.spares - waiting[node]):
                self._procs += 1
                self.spares[self._procs] = False
                self.node_of[self._procs] = node
                actions.append(m.Start(self._procs, None, node))
        return actions

    def _spare_exited(self, proc: int) -> list[m.Action]:
        self.node_of.pop(proc, None)
        return super()._spare_exited(proc)

    # ------------------------------------------------------------------ time

    def _by_time(self, now: float, told: dict[int, str]) -> list[m.Action]:
        """Leases that are over, with what is told to be lost, and a probe that was waited for long enough.

        All losses at once: what one node gives up must not be placed on another that is lost too.
        """
        over = [node for node in self.nodes if now >= node.dead_by]
        silent = {n.index: f"not heard from for {now - n.heard:.1f} s, its lease is over" for n in over}
        lost = {**told, **silent}
        actions = self._lost(lost, now) if lost else []
        if self.phase is not Phase.ENDED and now >= self._probe_by:
            actions += self._conclude(now)
        return actions

    def _tick(self, now: float) -> list[m.Action]:
        actions = self._by_time(now, {})
        if self.phase is not Phase.ENDED and now >= self._reprobe_at:
            actions += self._ask(now)
        if self.phase is not Phase.ENDED and now >= self._short_by:
            actions += self._end(1, "too few nodes", self._shortage())
        if self.phase is Phase.ENDED:
            return actions
        self._be_patient_with_silence(now)
        return [*actions, *super()._tick(now)]

    def _be_patient_with_silence(self, now: float) -> None:
        """The ranks of a node that is not heard miss no deadline of their own: its lease decides."""
        for slot in self.slots:
            node = self.nodes[self.node_of.get(slot.proc, 0)]
            if node.dead_by < float("inf") and now - node.heard > SILENT_BEATS * self.config.beat_s:
                slot.deadline = max(slot.deadline, node.dead_by)

    def _shortage(self) -> str:
        absent = [str(n.index) for n in self.nodes if n.standing is Standing.ABSENT]
        trial = [str(n.index) for n in self.nodes if n.standing is Standing.TRIAL]
        said = [f"{len(self._present)} of {self.config.nodes} nodes after {self.config.node_wait_s:g} s"]
        said += [f"not there: {', '.join(absent)}"] if absent else []
        said += [f"not reached by the others: {', '.join(trial)}"] if trial else []
        return "; ".join([*said, f"needed: {self.config.min_nodes}"])
