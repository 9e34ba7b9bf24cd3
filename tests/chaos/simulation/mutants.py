"""Protocol bugs as they were met in the field, each a small patch of one of the machines.

Every one must be found by the search; `python -m tests.chaos.simulation.mutants` writes how many schedules
that took to reports/simulation/mutants.md.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chaos.simulation import search
from chaos.simulation.run import Outcome
from chaos.simulation.shrink import shrink
from chaos.simulation.world import Machines
from recovery.core import blame
from recovery.core import messages as m
from recovery.core import orders as o
from recovery.core.config import Config
from recovery.core.coordinator import Coordinator, Phase, Slot, Status
from recovery.core.door import Door
from recovery.core.errors import ProtocolError
from recovery.core.fleet import FleetCoordinator
from recovery.core.lease import Lease
from recovery.core.member import Member, Stage
from recovery.core.slots import Healing


@dataclass(frozen=True)
class Mutant:
    """One seeded bug.

    Attributes:
        source: where such a bug was reported, or which rule it breaks.
        hostile: whether it can only show where messages are late, lost or repeated.
        nodes: of the jobs; 0 for 2 to 5.
        budget: schedules within which it must be found.
    """

    name: str
    source: str
    machines: Machines
    hostile: bool | None = None
    budget: int = 3000
    nodes: int = 1


MUTANTS: list[Mutant] = []
SLOTS = {
    "fleet": FleetCoordinator,
    "coordinator": Coordinator,
    "member": Member,
    "lease": Lease,
    "door": Door,
}
"""Field of `Machines` -> what is put there; the more special first."""


def mutant(source: str, **more: Any) -> Callable[[type[Any]], type[Any]]:
    """Enlist a mutated machine under its class's name."""

    def enlist(machine: type[Any]) -> type[Any]:
        slot = next(slot for slot, kind in SLOTS.items() if issubclass(machine, kind))
        if slot in ("fleet", "lease", "door"):
            more.setdefault("nodes", 0)
        name = "".join(f"_{c.lower()}" if c.isupper() else c for c in machine.__name__).lstrip("_")
        changed: dict[str, Any] = {slot: machine}
        MUTANTS.append(Mutant(name, source, Machines(**changed), **more))
        return machine

    return enlist


# ---------------------------------------------------------------- generations and membership


@mutant("pytorch#135712: what was said in the previous generation is taken for this one", hostile=True)
class StaleGenerationIsAccepted(Coordinator):
    def handle(self, event: m.Event, now: float) -> list[m.Action]:
        if isinstance(event, (m.Failed, m.Formed)):
            event = replace(event, generation=self.generation)
        return super().handle(event, now)


@mutant("NVRx PR#118: a barrier key is used a second time and passes at once")
class BarrierKeyIsReused(Coordinator):
    def _open(self, now: float) -> list[m.Action]:
        if self.generation > 1:
            self.generation -= 1
        return super()._open(now)


@mutant("torchft PR#83: the next group is configured before everyone has left the old one")
class OpensBeforeAllAreReady(Coordinator):
    def _when_all_ready(self, now: float) -> list[m.Action]:
        back = self._count[Status.READY] + self._count[Status.RETURNING]
        if self.healing and back == len(self.slots) and self._count[Status.READY]:
            return self._open(now)
        return super()._when_all_ready(now)


@mutant("a spare is noted, and the order to start it is lost")
class SpareIsNotedNotStarted(Coordinator):
    def _recovered(self, now: float) -> list[m.Action]:
        return [one for one in super()._recovered(now) if not isinstance(one, m.Start)]


@mutant("torchft#63: a member that is gone is kept as a participant")
class DeadMemberStaysReady(Coordinator):
    def _exited(self, slot: Slot, event: m.Exited, now: float) -> list[m.Action]:
        if slot.status is Status.READY and self.phase is Phase.GATHERING:
            return []
        return super()._exited(slot, event, now)


@mutant("a member joins a generation that it has joined already", hostile=True)
class StaleOpenIsJoined(Member):
    def _open(self, opening: m.Open) -> list[o.Action]:
        if opening.generation <= self.generation:
            self.generation, self.stage = opening.generation - 1, Stage.WAITING
        return super()._open(opening)


@mutant("a late copy of a report counts as a new one", hostile=True)
class RepeatedReadyIsTaken(Coordinator):
    def _ready(self, slot: Slot, event: m.Ready, now: float) -> list[m.Action]:
        again = replace(event, generation=slot.opened, left_because=event.left_because or "collective_error")
        return super()._ready(slot, again, now)


# ---------------------------------------------------------------- fencing


@mutant("uw-syfi/piper PR#21: the rank is given away before its process is dead")
class RankIsGivenAwayBeforeTheFence(Coordinator):
    def _fence(self, slot: Slot, cause: m.Cause, since: float | None, now: float) -> list[m.Action]:
        actions = super()._fence(slot, cause, since, now)
        if self.phase is not Phase.ENDED:
            self._set(slot, Status.VACANT)
            slot.holds, slot.version = False, None
            actions += self._replace(slot, now)
        return actions


@mutant("corosync#182: the suspended one is replaced and not killed; thawed, it acts")
class ThawedRankIsNotFenced(RankIsGivenAwayBeforeTheFence):
    def _fence(self, slot: Slot, cause: m.Cause, since: float | None, now: float) -> list[m.Action]:
        actions = super()._fence(slot, cause, since, now)
        return [action for action in actions if not isinstance(action, m.Fence)]


@mutant("a coordinator that forgets a fence hears a fenced process")
class FenceIsForgotten(Coordinator):
    def _interrupt(self, cause: m.Cause, since: float | None, now: float) -> list[m.Action]:
        actions = super()._interrupt(cause, since, now)
        for slot in self.slots:
            if slot.status is Status.DYING and slot.proc != cause.proc:
                self._set(slot, Status.RETURNING)
                slot.deadline = float("inf")
        return actions


@mutant("a process of the past speaks for its successor", hostile=True, budget=10_000)
class WordsOfTheReplacedCount(Coordinator):
    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.past: dict[int, int] = {}

    def _assign(self, slot: Slot, proc: int) -> None:
        self.past[proc] = slot.rank
        super()._assign(slot, proc)

    def handle(self, event: m.Event, now: float) -> list[m.Action]:
        proc = getattr(event, "proc", None)
        if isinstance(event, (m.Ready, m.Failed)) and proc not in self._by_proc and proc in self.past:
            slot = self.slots[self.past[proc]]
            event = replace(event, proc=slot.proc, generation=slot.opened)
        return super().handle(event, now)


@mutant("measured: a survivor is released once, while it still opens connections", budget=20_000)
class ReleasedOnlyOnce(Coordinator):
    def _tick(self, now: float) -> list[m.Action]:
        self._next_release = float("inf")
        return super()._tick(now)

    def due(self) -> float:
        self._next_release = float("inf")
        return super().due()


@mutant("survivors are not released at all: they wait for the group's timeout (torchft#164)")
class NobodyIsReleased(Coordinator):
    def _release(self) -> list[m.Action]:
        return []


# ---------------------------------------------------------------- spares


@mutant("a spare is counted over the maximum")
class SparesOverTheMaximum(Coordinator):
    def _refill_spares(self) -> list[m.Action]:
        self.config = replace(self.config, spares=self.config.spares + 1)
        return super()._refill_spares()


@mutant("NVRx PR#325: a spare displaces a member that holds the state")
class SpareDisplacesAHolder(Coordinator):
    def _interrupt(self, cause: m.Cause, since: float | None, now: float) -> list[m.Action]:
        actions = super()._interrupt(cause, since, now)
        late = next((slot for slot in self.slots if slot.status is Status.RETURNING), None)
        if late is not None and self.spares and self.phase is Phase.GATHERING:
            actions += self._replace(late, now)
        return actions


@mutant("a dead spare is promoted")
class DeadSpareIsPromoted(Coordinator):
    def _spare_exited(self, proc: int) -> list[m.Action]:
        return []


# ---------------------------------------------------------------- state


@mutant("Oobleck: state is sent from a rank that is one step behind")
class SourceIsOneStepBehind(Coordinator):
    def _open(self, now: float) -> list[m.Action]:
        actions = super()._open(now)
        return [
            replace(a, holders=tuple(s.rank for s in self.slots if s.version is not None))
            if isinstance(a, m.Open) and not a.genesis
            else a
            for a in actions
        ]


@mutant("always heals from the lowest rank")
class LowestRankIsTheSource(Coordinator):
    def _open(self, now: float) -> list[m.Action]:
        first = next((slot for slot in self.slots if slot.version is not None), None)
        for slot in self.slots:
            if first is not None and slot.version is not None and slot.version > (first.version or 0):
                slot.version = first.version
        return super()._open(now)


@mutant("torchtitan PR#806: a healthy member is told to heal")
class DoubleHeal(Coordinator):
    def _open(self, now: float) -> list[m.Action]:
        return [
            replace(a, receivers=(*a.receivers, a.holders[-1]), holders=a.holders[:-1])
            if isinstance(a, m.Open) and len(a.holders) > 1 and a.receivers
            else a
            for a in super()._open(now)
        ]


@mutant("digests are not looked at: a corrupt replica keeps its state")
class CorruptReplicaIsKept(Coordinator):
    def _ready(self, slot: Slot, event: m.Ready, now: float) -> list[m.Action]:
        if event.version is not None:
            event = replace(event, digest=f"v{event.version}")
        return super()._ready(slot, event, now)


@mutant("state lost is answered by beginning anew")
class StateIsInvented(Coordinator):
    def _state_lost(self) -> list[m.Action]:
        return []

    def _nothing_was_committed(self) -> bool:
        return True


@mutant("a successor is taken for a holder of what its predecessor held")
class SuccessorInheritsTheVersion(Coordinator):
    def _exited(self, slot: Slot, event: m.Exited, now: float) -> list[m.Action]:
        version, digest = slot.version, slot.digest
        actions = super()._exited(slot, event, now)
        slot.version, slot.digest, slot.holds = version, digest, True
        return actions

    def _ready(self, slot: Slot, event: m.Ready, now: float) -> list[m.Action]:
        if event.version is None and slot.version is not None:
            event = replace(event, version=slot.version, digest=slot.digest)
        return super()._ready(slot, event, now)


@mutant("state is given up although a member holds it")
class StateIsLostTooSoon(Coordinator):
    def _exited(self, slot: Slot, event: m.Exited, now: float) -> list[m.Action]:
        actions = super()._exited(slot, event, now)
        holders = sum(other.holds for other in self.slots)
        if self.had_state and holders == 1 and self.phase is not Phase.ENDED:
            return [*actions, *self._state_lost()]
        return actions


@mutant("the first state is lost with the first who said that it had it", budget=10_000)
class FirstStateIsForgotten(Coordinator):
    """Found by the simulation in this protocol: only a member's word made it a holder."""

    def _may_hold(self, slot: Slot) -> bool:
        return False

    def _open(self, now: float) -> list[m.Action]:
        before = [slot.holds for slot in self.slots]
        actions = super()._open(now)
        for slot, held in zip(self.slots, before, strict=True):
            slot.holds = held
        return actions

    def _nothing_was_committed(self) -> bool:
        return False


@mutant("acknowledged but not applied: formed is reported before the state has arrived")
class AcknowledgedButNotApplied(Member):
    def _connected(self, event: o.Connected, now: float) -> list[o.Action]:
        actions = super()._connected(event, now)
        if self.stage is Stage.TAKING:
            return self._formed(now, 0)
        return actions


@mutant("what arrived is believed without its digest")
class ArrivalIsNotVerified(Member):
    def _taken(self, event: o.Taken, now: float) -> list[o.Action]:
        assert self._opening is not None
        return super()._taken(replace(event, digest=self._opening.digest or ""), now)


@mutant("a torn adoption is reported as the old state")
class TornStateIsReported(Member):
    def _connected(self, event: o.Connected, now: float) -> list[o.Action]:
        held = self.version
        actions = super()._connected(event, now)
        if self.stage is Stage.TAKING:
            self.version = held if held is not None else 0
        return actions


@mutant("a step that failed is not rolled back")
class NoRollback(Member):
    def _broken(self, event: o.Broken) -> list[o.Action]:
        return [action for action in super()._broken(event) if not isinstance(action, o.Restore)]


@mutant("the output of a failed collective is used (I-DISCARD)")
class FailedCollectiveIsUsed(Member):
    def _broken(self, event: o.Broken) -> list[o.Action]:
        if self.stage is Stage.STEPPING and self._in(event.generation):
            done = super()._done(o.Done(self.step))
            self.stage = Stage.IDLE
            return [*done, *super()._broken(event)]
        return super()._broken(event)


@mutant("a resumed step is committed under the number after the next")
class StepIsSkipped(Member):
    def _formed(self, now: float, received: int) -> list[o.Action]:
        actions = super()._formed(now, received)
        if received:
            assert self.version is not None
            self.version += 1
        return actions


# ---------------------------------------------------------------- deadlines


class NoDeadline(Coordinator):
    without: Status

    def _patient(self) -> None:
        for slot in self.slots:
            if slot.status is self.without:
                slot.deadline = float("inf")

    def _tick(self, now: float) -> list[m.Action]:
        self._patient()
        return super()._tick(now)

    def due(self) -> float:
        self._patient()
        return super().due()


@mutant("NVRx PR#263: no deadline while a generation forms", hostile=True, budget=6000)
class NoDeadlineWhileForming(NoDeadline):
    without = Status.FORMING


@mutant("no deadline for a process that starts", hostile=True)
class NoDeadlineWhileStarting(NoDeadline):
    without = Status.STARTING


@mutant("no deadline for a survivor that returns")
class NoDeadlineWhileReturning(NoDeadline):
    without = Status.RETURNING


@mutant("pytorch#111646: a stopped process is not noticed")
class StopIsNotNoticed(Coordinator):
    def handle(self, event: m.Event, now: float) -> list[m.Action]:
        return [] if isinstance(event, m.Stopped) else super().handle(event, now)


@mutant("a process that has continued is fenced all the same")
class ContinuedIsNotForgiven(Coordinator):
    def handle(self, event: m.Event, now: float) -> list[m.Action]:
        return [] if isinstance(event, m.Continued) else super().handle(event, now)


@mutant("a declared long phase is taken for a hang")
class BusyIsIgnored(Coordinator):
    def handle(self, event: m.Event, now: float) -> list[m.Action]:
        if isinstance(event, m.Busy):
            return []
        return super().handle(event, now)


# ---------------------------------------------------------------- budgets, records, endings


@mutant("pytorch#108158: restarts are counted by each rank")
class RestartsAreCountedLocally(Coordinator):
    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.by_rank: Counter[int | None] = Counter()

    def _interrupt(self, cause: m.Cause, since: float | None, now: float) -> list[m.Action]:
        self.by_rank[cause.rank] += 1
        self.restarts = self.by_rank[cause.rank] - 1
        return super()._interrupt(cause, since, now)


@mutant("pytorch#147064: a regroup is not counted as a restart")
class RegroupsAreFree(Coordinator):
    def _interrupt(self, cause: m.Cause, since: float | None, now: float) -> list[m.Action]:
        before = self.restarts
        actions = super()._interrupt(cause, since, now)
        if cause.proc is None:
            self.restarts = before
        return actions


@mutant("two faults are counted as one")
class TwoFaultsCountAsOne(Coordinator):
    def _interrupt(self, cause: m.Cause, since: float | None, now: float) -> list[m.Action]:
        first = self.healing.causes[:1] if self.healing else []
        actions = super()._interrupt(cause, since, now)
        if first and self.healing is not None and first[0].kind != "collective_error":
            self.healing.causes = first
        return actions


@mutant("a broken generation after the recovery has begun is an echo of the first", budget=6000)
class LaterBreaksAreEchoes(Coordinator):
    """Found by the simulation in this protocol: regroups of one recovery cost nothing, without end."""

    def _interrupt(self, cause: m.Cause, since: float | None, now: float) -> list[m.Action]:
        if self.healing is not None and self.healing.causes:
            self.healing.broken = self.generation
        return super()._interrupt(cause, since, now)


@mutant("a commit that is heard before the last word of forming closes no recovery")
class EarlyCommitIsForgotten(Coordinator):
    """Found by the simulation in this protocol: the next loss then joined a recovery long over."""

    def _formed(self, slot: Slot, event: m.Formed, now: float) -> list[m.Action]:
        held = self.base_version
        self.base_version = sys.maxsize
        actions = super()._formed(slot, event, now)
        self.base_version = held
        return actions


@mutant("a rank that hangs behind its last commit is waited for, for ever", budget=10_000)
class HangBehindTheLastStep(Coordinator):
    """Found by the simulation in this protocol: who has finished enters no collective to be late for."""

    def _expect_the_others(self, now: float) -> None:
        pass


@mutant("a late copy of the last word of a process that has left is an error", hostile=True)
class LastWordIsAnError(Coordinator):
    """Found by the simulation in this protocol."""

    def handle(self, event: m.Event, now: float) -> list[m.Action]:
        slot = self._by_proc.get(event.proc) if isinstance(event, m.Ready) else None
        if slot is not None and slot.status is Status.LEFT:
            raise ProtocolError(f"rank {slot.rank} is ready although everyone has left")
        return super().handle(event, now)


@mutant("the loss of a rank is told of another")
class WrongRankIsNamed(Coordinator):
    def _interrupt(self, cause: m.Cause, since: float | None, now: float) -> list[m.Action]:
        if cause.rank is not None:
            cause = replace(cause, rank=(cause.rank + 1) % len(self.slots))
        return super()._interrupt(cause, since, now)


@mutant("what follows the end: processes are started for a job that is over")
class ActsAfterTheEnd(Coordinator):
    def _end(self, code: int, reason: str, detail: str) -> list[m.Action]:
        actions = super()._end(code, reason, detail)
        return [*actions, m.Note("recovery.detect", None, self.generation)] if code else actions


@mutant("NVRx PR#266: one member that has finished lets everyone leave")
class LeavesWithOneUnfinished(Coordinator):
    def _when_all_ready(self, now: float) -> list[m.Action]:
        if any(slot.finished for slot in self.slots) and self._count[Status.READY] >= len(self.slots) - 1:
            self.phase = Phase.LEAVING
            return [m.Leave()]
        return super()._when_all_ready(now)


@mutant("a recovery's phases overlap")
class PhasesDoNotAddUp(Coordinator):
    def _recovered(self, now: float) -> list[m.Action]:
        return [
            replace(a, transfer_s=a.transfer_s + a.resume_s) if isinstance(a, m.Recovered) else a
            for a in super()._recovered(now)
        ]


@mutant("a loss during a recovery starts the clock anew")
class ClockStartsAnew(Coordinator):
    def _interrupt(self, cause: m.Cause, since: float | None, now: float) -> list[m.Action]:
        actions = super()._interrupt(cause, since, now)
        if isinstance(self.healing, Healing) and len(self.healing.causes) > 1:
            self.healing.detected = now
        return actions


# ---------------------------------------------------------------- who is blamed


def _blames_the_first(
    members: Sequence[blame.Progress], config: Config, step_s: float | None, now: float
) -> blame.Verdict | None:
    verdict = blame.judge(members, config, step_s, now)
    if verdict is None or verdict.kind != "hang" or verdict.rank is None:
        return verdict
    waiting = next(one for one in members if one.rank != verdict.rank)
    return replace(verdict, rank=waiting.rank, proc=waiting.proc)


MUTANTS.append(
    Mutant(
        "the_waiting_rank_is_blamed",
        "the rank that waits is blamed, not the one waited for",
        Machines(judge=_blames_the_first),
    )
)
MUTANTS.append(
    Mutant("hangs_are_not_looked_for", "pytorch#111646: only the group's timeout ends a hang",
           Machines(judge=lambda *_: None))
)  # fmt: skip
MUTANTS.append(
    Mutant(
        "sequences_are_not_compared",
        "measured: one extra collective shifts all later ones, silently",
        Machines(check_sequence=False),
    )
)


def all_mutants() -> list[Mutant]:
    """Those of one node, and those of several."""
    from tests.chaos.simulation import fleet_mutants

    # Run as a program, this module is another one than the one that they enlist themselves in.
    others = [one for one in fleet_mutants.FLEET_MUTANTS if one.name not in {mine.name for mine in MUTANTS}]
    return [*MUTANTS, *others]


def hunt(mutant: Mutant, seed: int) -> tuple[Outcome | None, int]:
    """Search until it is found or its budget is spent; returns the outcome and the schedules run."""
    spent, number = 0, 0
    while spent < mutant.budget:
        options = search.Options(seed, hostile=mutant.hostile, nodes=mutant.nodes)
        tally = search.chunk(options, number, machines=mutant.machines)
        number += 1
        if tally.found is not None and tally.number is not None:
            return tally.found, spent + tally.number + 1
        spent += tally.schedules
    return None, spent


def _row(mutant: Mutant, seeds: Sequence[int]) -> str:
    counts: list[int] = []
    invariants: Counter[str] = Counter()
    faults = []
    for seed in seeds:
        found, schedules = hunt(mutant, seed)
        counts.append(schedules if found is not None else sys.maxsize)
        if found is not None and found.violation is not None:
            invariants[found.violation.invariant] += 1
            if seed == seeds[0]:
                faults.append(len(shrink(found, mutant.machines, most_runs=600).plan.faults))
    counts.sort()
    shown = [str(count) if count < sys.maxsize else "not found" for count in counts]
    by = invariants.most_common(1)[0][0] if invariants else "-"
    small = faults[0] if faults else "-"
    cells = [mutant.name, mutant.source, shown[len(shown) // 2], shown[-1], str(mutant.budget), by, small]
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    """Write the table; with a second argument, of the bugs whose names contain it to the screen only."""
    seeds = range(1, 1 + (int(sys.argv[1]) if len(sys.argv) > 1 else 5))
    rows = []
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    for mutant in all_mutants():
        if wanted in mutant.name:
            rows.append(_row(mutant, seeds))
            print(rows[-1], flush=True)
    if wanted:
        return
    legend = (
        f"Schedules until the first violation, over {len(seeds)} seeds of the search. `faults`: how many are"
        " left in the plan of the first seed after shrinking. The suite fails if one survives its budget."
    )
    text = [
        f"# {len(rows)} seeded protocol bugs and how soon the simulation finds them",
        "",
        f"    python -m tests.chaos.simulation.mutants {len(seeds)}",
        "",
        legend,
        "",
        "| bug | source | median | worst | budget | found by | faults |",
        "|---|---|---:|---:|---:|---|---:|",
        *rows,
    ]
    path = Path("reports/simulation/mutants.md")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
