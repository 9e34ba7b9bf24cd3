"""The supervisor of a job on several nodes: node 0's own processes, and through the hub everyone else's."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from recovery import events
from recovery.core import messages as m
from recovery.core.config import Config
from recovery.core.coordinator import Coordinator
from recovery.core.fleet import FleetCoordinator
from recovery.shell import page as words
from recovery.shell import wire
from recovery.shell.hub import Hub
from recovery.shell.probing import Address
from recovery.shell.supervisor import Supervisor
from recovery.shell.worker import Program

FRESH_S = 0.5
"""Progress of another node's ranks that is older than this accuses no one."""
OWN = 0


class Asker:
    """A worker of another node, as the rendezvous store sees it."""

    def __init__(self, hub: Hub, node: int, proc: int) -> None:
        self._hub, self._node, self._proc = hub, node, proc

    def send(self, **message: Any) -> None:
        self._hub.say(self._node, op="answer", proc=self._proc, fields=message)


class FleetSupervisor(Supervisor):
    """Node 0.

    Args:
        address: where the coordinator listens for nodes.
        facts: what must be equal on all nodes.
    """

    coordinator: FleetCoordinator

    def __init__(
        self,
        config: Config,
        program: Program,
        address: Address,
        secret: bytes,
        facts: Mapping[str, Any],
        *,
        fork: bool = True,
    ) -> None:
        super().__init__(config, program, fork=fork)
        self._node_of: dict[int, int] = {}
        """proc -> node, for every process of another node."""
        self._askers: dict[int, Asker] = {}
        self.hub = Hub(
            self.reactor,
            address,
            secret,
            facts,
            welcome=asdict(config),
            node=lambda index: self.coordinator.nodes[index],
            joined=lambda node, session: self._hear_node(m.NodeJoined(node, session)),
            hear=self._hear,
        )

    def _make_coordinator(self) -> Coordinator:
        return FleetCoordinator(self.config)

    def _begin(self) -> None:
        super()._begin()
        self._hear_node(m.NodeJoined(OWN, 1))

    def _turn(self) -> None:
        super()._turn()
        self.hub.tick()

    def _part(self) -> None:
        self.hub.close(op="end", code=self.exit_code, reason="the job has ended")

    # ------------------------------------------------------------------ progress of other nodes' ranks

    def _starved_s(self, proc: int, slot: words.Slot) -> float:
        return slot.floats[words.STARVED_S] if proc in self._node_of else super()._starved_s(proc, slot)

    def _is_fresh(self, now: float) -> bool:
        nodes = {self._node_of.get(slot.proc, OWN) for slot in self.coordinator.slots} - {OWN}
        guests = [self.hub.guest(node) for node in nodes]
        return all(guest is not None and now - guest.sampled_at < FRESH_S for guest in guests)

    # ------------------------------------------------------------------ hearing

    def _hear_node(self, event: m.NodeEvent) -> None:
        if self.exit_code is None:
            self._act(self.coordinator.handle(event, time.monotonic()))

    def _hear(self, node: int, session: int, message: dict[str, Any]) -> None:
        """What the node of this session says.

        Raises:
            ValueError: it is nothing that a node says.
        """
        now = time.monotonic()
        match message["op"]:
            case "beat":
                self._hear_node(m.NodeBeat(node, session, int(message["number"])))
            case "event":
                event = wire.unpacked({name: value for name, value in message.items() if name != "op"}, now)
                self._hear_process(node, event)
            case "progress":
                self._take_progress(node, message["samples"], now)
            case "store":
                proc = int(message["proc"])
                if self._node_of.get(proc) == node:
                    asker = self._askers.setdefault(proc, Asker(self.hub, node, proc))
                    self.store.handle(asker, message["request"])
            case "reached":
                peers = frozenset(int(peer) for peer in message["peers"])
                self._hear_node(m.Reached(node, int(message["probe"]), peers))
            case "left":
                self._hear_node(m.NodeLeft(node, session, str(message["reason"])))
            case other:
                raise ValueError(f"unknown message {other!r} from node {node}")

    def _hear_process(self, node: int, event: m.Event) -> None:
        proc = getattr(event, "proc", None)
        if proc is None or self._node_of.get(proc) != node:
            return  # of a process that it lost with an earlier session
        if isinstance(event, m.Exited):
            self._forget(proc)
        self._tell(event)

    def _forget(self, proc: int) -> None:
        del self._node_of[proc]
        asker = self._askers.pop(proc, None)
        if asker is not None:
            self.store.forget(asker)

    def _take_progress(self, node: int, samples: list[dict[str, Any]], now: float) -> None:
        guest = self.hub.guest(node)
        if guest is not None:
            guest.sampled_at = now
        owners = {slot.rank: slot.proc for slot in self.coordinator.slots}
        for sample in samples:
            rank, proc = int(sample["rank"]), int(sample["proc"])
            if owners.get(rank) == proc and self._node_of.get(proc) == node:
                self.page.slots[rank].put(sample, now)

    # ------------------------------------------------------------------ acting

    def _act(self, actions: Iterable[m.Action]) -> None:
        for action in actions:
            if not self._act_elsewhere(action):
                super()._act([action])

    def _act_elsewhere(self, action: m.Action) -> bool:
        """Carry out what concerns other nodes; False if it is this node's own."""
        match action:
            case m.Start(proc=proc, rank=rank, node=node) if node != OWN:
                self._node_of[proc] = node
                self.hub.say(node, op="start", proc=proc, rank=rank)
            case m.Promote(proc=proc, rank=rank) if proc in self._node_of:
                self.hub.say(self._node_of[proc], op="promote", proc=proc, rank=rank)
            case m.Fence(proc=proc, reason=reason) if proc in self._node_of:
                self.hub.say(self._node_of[proc], op="fence", proc=proc, reason=reason)
            case m.Release(proc=proc, generation=generation) if proc in self._node_of:
                self.store.close()
                ends = self.store.ends(generation).as_json()
                self.hub.say(self._node_of[proc], op="release", proc=proc, generation=generation, ends=ends)
            case m.Leave():
                for node in set(self._node_of.values()):
                    self.hub.say(node, op="leave")
                return False
            case m.Grant(node=node, number=number):
                self.hub.say(node, op="grant", number=number)
            case m.Probe():
                self._probe(action)
            case m.NodeChanged():
                self._node_changed(action)
            case _:
                return False
        return True

    def _announce(self, action: m.Open, opening: dict[str, Any]) -> None:
        by_node: dict[int, list[int]] = {}
        for member in action.members:
            by_node.setdefault(self._node_of.get(member.proc, OWN), []).append(member.proc)
        for node, procs in by_node.items():
            if node == OWN:
                self.hands.open(opening, procs)
            else:
                self.hub.say(node, op="open", opening=opening, procs=procs)

    def _probe(self, action: m.Probe) -> None:
        known = self.hub.probe_addresses()
        asked = {node: known[node] for node in action.nodes if node in known}
        for node in action.nodes:
            peers = {peer: address for peer, address in asked.items() if peer != node}
            if node != OWN:
                self.hub.say(node, op="probe", number=action.number, peers=peers)
                continue
            number = action.number
            self.hub.prober.ask(peers, lambda got, n=number: self._hear_node(m.Reached(OWN, n, got)))  # type: ignore[misc]

    def _node_changed(self, action: m.NodeChanged) -> None:
        node = action.node
        events.emit(f"node.{action.standing}", about=node, session=action.session, reason=action.reason)
        if action.standing != "lost":
            return
        for proc in [proc for proc, where in self._node_of.items() if where == node]:
            self._forget(proc)
            self.pids.pop(proc, None)
        guest = self.hub.guest(node)
        if guest is not None and guest.session == action.session:
            self.hub.forget(node)
