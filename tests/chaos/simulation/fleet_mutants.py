"""Seeded bugs of jobs on several nodes: leases, sessions, probes, placement, counting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chaos.simulation.world import Machines
from recovery.core import blame
from recovery.core import messages as m
from recovery.core.config import Config
from recovery.core.coordinator import Coordinator
from recovery.core.door import Admitted, Door, Hello, Later, Refused
from recovery.core.fleet import FleetCoordinator
from recovery.core.lease import Lease
from recovery.core.nodes import Node, Standing
from recovery.core.pace import StepTimes
from recovery.core.slots import Phase, Slot, Status
from tests.chaos.simulation.mutants import MUTANTS, Mutant, mutant

BEFORE = len(MUTANTS)

# ---------------------------------------------------------------- leases


@mutant("a lease is counted from the receipt of the grant, not from the beat that it answers")
class LeaseFromTheReceipt(Lease):
    fresh = False

    def granted(self, number: int) -> None:
        super().granted(number)
        self.fresh = True

    def over(self, now: float) -> bool:
        if self.fresh:
            self.fresh, self.until = False, now + self.config.lease_s
        return super().over(now)


@mutant("the drift of clocks is forgotten when a node is given up", budget=10_000)
class DriftIsForgotten(FleetCoordinator):
    def _lease_end(self, node: Node, now: float) -> float:
        return super()._lease_end(node, now) - self.config.lease_s * self.config.clock_drift


@mutant("corosync#182: a silent node's ranks are moved before its lease is over")
class RankMovesBeforeTheLeaseIsOver(FleetCoordinator):
    def _lease_end(self, node: Node, now: float) -> float:
        return now + 0.6 * (super()._lease_end(node, now) - now)


MUTANTS.append(
    Mutant(
        "worker_ignores_its_lease",
        "KurrentDB#1604: a worker whose supervisor is frozen commits after its lease",
        Machines(check_lease=False),
        nodes=0,
    )
)


# ---------------------------------------------------------------- sessions


@mutant("a node is let in while the lease of its earlier supervisor runs")
class UnexpiredLeaseIsNoHindrance(Door):
    def knock(self, hello: Hello, node: Node, now: float) -> Admitted | Later | Refused:
        answer = super().knock(hello, node, now)
        if isinstance(answer, Later) and not hello.resumes:
            self._sessions += 1
            return Admitted(self._sessions)
        return answer


@mutant("a greeting that was long under way ends the session that followed it")
class LateGreetingEndsTheSession(Door):
    """Found in the first shell for several nodes: whoever had been there before was let in at once."""

    def __init__(self, job: str) -> None:
        super().__init__(job)
        self.known: set[int] = set()

    def knock(self, hello: Hello, node: Node, now: float) -> Admitted | Later | Refused:
        if hello.node in self.known and not hello.resumes and hello.job in ("", self.job):
            hello = replace(hello, former=node.session)
        answer = super().knock(hello, node, now)
        if isinstance(answer, Admitted):
            self.known.add(hello.node)
        return answer


@mutant("a session number is given a second time")
class SessionNumberIsReused(Door):
    def knock(self, hello: Hello, node: Node, now: float) -> Admitted | Later | Refused:
        answer = super().knock(hello, node, now)
        if isinstance(answer, Admitted) and hello.former and not answer.resumed:
            return Admitted(hello.former)
        return answer


@mutant("a coordinator that comes back empty takes the nodes of its earlier start")
class EarlierStartIsTakenOver(Door):
    def knock(self, hello: Hello, node: Node, now: float) -> Admitted | Later | Refused:
        return super().knock(replace(hello, job=""), node, now)


@mutant("a node that has begun anew keeps its ranks, of which nothing runs any more")
class NodeThatBeginsAnewKeepsItsRanks(FleetCoordinator):
    def _lost(self, gone: dict[int, str], now: float) -> list[m.Action]:
        return [] if "it has begun anew" in gone.values() else super()._lost(gone, now)


# ---------------------------------------------------------------- who reaches whom


@mutant("a generation is opened without asking who reaches whom")
class OpensWithoutAProbe(FleetCoordinator):
    def _ask(self, now: float) -> list[m.Action]:
        if not self.started:
            return super()._ask(now)
        for node in self.nodes:
            if node.standing is Standing.TRIAL:
                node.standing = Standing.PRESENT
        return []


@mutant("an answer to an older probe counts for the newest")
class OldAnswersCount(FleetCoordinator):
    def _heard_of_probe(self, event: m.Reached, now: float) -> list[m.Action]:
        return super()._heard_of_probe(replace(event, probe=self.probe), now)


@mutant("a node that has not answered is taken for reachable")
class SilenceIsAnAnswer(FleetCoordinator):
    """Found by the simulation in this protocol."""

    def _conclude(self, now: float) -> list[m.Action]:
        everyone = frozenset(self._asked or ())
        for index in everyone - self._reached.keys():
            self._reached[index] = everyone - {index}
        return super()._conclude(now)


@mutant("F29: a generation is opened over a minority of the nodes")
class MinorityOpens(FleetCoordinator):
    def __init__(self, config: Config) -> None:
        super().__init__(replace(config, min_nodes=1))


@mutant("a node that the others can't reach gets ranks again")
class EvictedNodeGetsRanks(FleetCoordinator):
    @property
    def _present(self) -> list[int]:
        return [node.index for node in self.nodes if node.standing is not Standing.ABSENT]


@mutant("a node that was put out is never tried again")
class TrialIsNotRepeated(FleetCoordinator):
    def _conclude(self, now: float) -> list[m.Action]:
        actions = super()._conclude(now)
        self._reprobe_at = float("inf")
        return actions


# ---------------------------------------------------------------- placement, spares, counting


@mutant("a spare on a lost node is kept, and promoted")
class SpareOnALostNodeIsKept(FleetCoordinator):
    def _lost(self, gone: dict[int, str], now: float) -> list[m.Action]:
        kept = dict(self.spares)
        where = dict(self.node_of)
        there = next(iter(set(range(len(self.nodes))) - set(gone)), 0)
        actions = super()._lost(gone, now)
        for proc, stopped in kept.items():
            if proc not in self.spares and proc not in self._by_proc and where.get(proc) in gone:
                self.spares[proc], self.node_of[proc] = stopped, there
        return actions


@mutant("a rank is placed on a node that is lost at the same moment")
class LostNodesGoOneByOne(FleetCoordinator):
    """Found by the simulation in this protocol."""

    def _lost(self, gone: dict[int, str], now: float) -> list[m.Action]:
        self._sure |= frozenset(self._present)
        self._asked = None
        return [
            action
            for index, why in gone.items()
            for action in super(LostNodesGoOneByOne, self)._lost({index: why}, now)
        ]


@mutant("a node holds more ranks than it may")
class NodeIsOverfull(FleetCoordinator):
    def __init__(self, config: Config) -> None:
        super().__init__(replace(config, max_per_node=None))


@mutant("the loss of a node is counted once for each of its ranks")
class NodeLossIsCountedPerRank(FleetCoordinator):
    def _count_loss(self, node: Node, reason: str, now: float) -> list[m.Action]:
        extra = sum(self._is_on(slot, node.index) and slot.status is not Status.DYING for slot in self.slots)
        actions = super()._count_loss(node, reason, now)
        self.restarts += max(0, extra - 1)
        return actions


@mutant("lost nodes are taken for a bug of the script")
class NodeLossIsADeterministicFailure(FleetCoordinator):
    """Found by the simulation in this protocol."""

    def _budget_exceeded(self) -> tuple[str, str] | None:
        if self.healing is not None:
            for cause in self.healing.causes[self.healing.counted :]:
                if cause.kind in ("node_lost", "unreachable"):
                    self.same_failure[None, cause.kind, self.version] += 1
                    if self.same_failure[None, cause.kind, self.version] >= self.config.max_same_failure:
                        return "deterministic failure", f"at step {self.version}: {cause.kind}"
        return super()._budget_exceeded()


@mutant("nobody gives up waiting for nodes that do not come")
class WaitsForNodesForEver(FleetCoordinator):
    def _tick(self, now: float) -> list[m.Action]:
        self._short_by = float("inf")
        return super()._tick(now)

    def due(self) -> float:
        self._short_by = float("inf")
        return super().due()


@mutant("a rank of a lost node waits for a process that can't report its death")
class LostRanksAreWaitedFor(FleetCoordinator):
    def _exited(self, slot: Slot, event: m.Exited, now: float) -> list[m.Action]:
        lost = self.node_of.get(slot.proc)
        if lost is not None and self.nodes[lost].standing is Standing.ABSENT:
            return []
        return super()._exited(slot, event, now)


def _blind_to_ends(
    members: Sequence[blame.Progress], config: Config, step_s: float | None, now: float
) -> blame.Verdict | None:
    return blame.judge([replace(one, sealing=False) for one in members], config, step_s, now)


MUTANTS.append(
    Mutant(
        "ends_of_steps_are_not_watched",
        "found by the simulation: a network that is cut while a step's end is agreed stops the job for ever",
        Machines(judge=_blind_to_ends),
        budget=6000,
        nodes=0,
    )
)

FLEET_MUTANTS = MUTANTS[BEFORE:]


class LastHolderIsEvicted(FleetCoordinator):
    """Found by looking, in this protocol. Three faults have to meet, so a plan shows it; it is not hunted."""

    def _holding(self) -> set[int]:
        return set()


class OneProbeIsEnough(FleetCoordinator):
    """Found by the simulation in this protocol, after some 20,000 schedules."""

    def _conclude(self, now: float) -> list[m.Action]:
        nodes = range(len(self.nodes))
        self._doubted = {(one, other) for one in nodes for other in nodes}
        return super()._conclude(now)


class PauseIsNotNoticed(OneProbeIsEnough):
    """Found by the simulation in this protocol, after some 3,000 schedules."""

    def handle(self, event: m.Event | m.NodeEvent, now: float) -> list[m.Action]:
        self.hasty = isinstance(event, m.NodeEvent)
        return super().handle(event, now)

    def _by_time(self, now: float, told: dict[int, str]) -> list[m.Action]:
        if not self.hasty:
            return super()._by_time(now, told)
        return self._lost(told, now) if told else []


class ReceiverCountsAsHolder(FleetCoordinator):
    """Found by the simulation in this protocol, after some 300,000 schedules."""

    def _half_adopted(self, slot: Slot) -> bool:
        return False


class OverdueBeforeToldLosses(FleetCoordinator):
    """Found by the simulation in this protocol, after some 57,000 schedules."""

    def _told_lost(self, event: m.NodeEvent) -> dict[int, str]:
        return {}

    def _joined(self, event: m.NodeJoined, now: float) -> list[m.Action]:
        begun_anew = super()._told_lost(event)
        actions = self._lost(begun_anew, now) if begun_anew else []
        return actions if self.phase is Phase.ENDED else [*actions, *super()._joined(event, now)]


class LostNodeStillCounts(FleetCoordinator):
    """Found by the simulation in this protocol, after some 12,000 schedules."""

    def _lost(self, gone: dict[int, str], now: float) -> list[m.Action]:
        sure = self._sure
        actions = super()._lost(gone, now)
        self._sure |= sure
        return actions


class ArrivedStateIsGivenUp(FleetCoordinator):
    """Found by the simulation in this protocol: who adopts it may have it before anyone has heard so."""

    def _may_hold(self, slot: Slot) -> bool:
        return False


class LateToFinishIsKilled(Coordinator):
    def _overdue(self, slot: Slot, now: float) -> list[m.Action]:
        if slot.status is Status.RUNNING:
            return self._fence(slot, m.Cause(slot.rank, "hang", "late", slot.proc), None, now)
        return super()._overdue(slot, now)


class LastStepIsThePace(StepTimes):
    def add(self, step_s: float) -> float:
        return step_s


BY_PLAN = (
    Mutant(
        "last_step_is_the_pace",
        "after a hang that ended by itself the next one is found many times later",
        Machines(step_times=LastStepIsThePace),
        nodes=0,
    ),
    Mutant(
        "late_to_finish_is_killed",
        "a healthy rank is ended because what it waits for was lost with one that had finished",
        Machines(coordinator=LateToFinishIsKilled),
    ),
    Mutant(
        "one_probe_is_enough",
        "a node that died after it had answered puts another out, by whose side it is missed",
        Machines(fleet=OneProbeIsEnough),
        nodes=0,
    ),
    Mutant(
        "lost_node_still_counts",
        "a node without ranks that is lost while they gather still makes up the number that is needed",
        Machines(fleet=LostNodeStillCounts),
        nodes=0,
    ),
    Mutant(
        "arrived_state_is_given_up",
        "the state is lost with its last source, although a receiver has it already",
        Machines(fleet=ArrivedStateIsGivenUp),
        nodes=0,
    ),
    Mutant(
        "pause_is_not_noticed",
        "answers from before a pause of the coordinator put its own node out",
        Machines(fleet=PauseIsNotNoticed),
        nodes=0,
    ),
    Mutant(
        "receiver_counts_as_holder",
        "the only holder is put out, for one that was adopting the state when it broke counts as another",
        Machines(fleet=ReceiverCountsAsHolder),
        nodes=3,
    ),
    Mutant(
        "overdue_before_told_losses",
        "a rank of a node whose lease is over is placed on one that has just begun anew",
        Machines(fleet=OverdueBeforeToldLosses),
        nodes=3,
    ),
    Mutant(
        "last_holder_is_evicted",
        "of two nodes that can't reach each other, the one with the only state is put out",
        Machines(fleet=LastHolderIsEvicted),
        nodes=3,
    ),
)
"""Seeded bugs that a plan among the regression plans brings to light."""
