"""What must be true at every event of a simulated run: an observer that sees every process's memory.

Safety here; liveness is the world's deadline. Every rule is O(1) an event but those at the opening of a
generation, which look at each member once.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NoReturn

from chaos.simulation.plan import NETWORK
from chaos.simulation.violation import Violation
from recovery.core import messages as m
from recovery.core import orders as o
from recovery.core.coordinator import Phase
from recovery.core.member import Stage

if TYPE_CHECKING:
    from chaos.simulation.worker import Worker
    from chaos.simulation.world import World

NAMES = (
    "one_owner_per_rank_and_generation",
    "rank_is_given_away_only_after_death",
    "only_what_was_started_gets_a_rank",
    "members_agree_on_membership",
    "generation_moves_forward",
    "commit_is_by_a_member_of_the_newest_generation",
    "committed_step_is_monotone_and_gap_free",
    "committed_state_is_agreed",
    "no_committed_step_is_lost_while_it_is_held",
    "what_is_reported_is_held",
    "stale_messages_change_nothing",
    "state_source_holds_what_it_sends",
    "only_those_behind_adopt",
    "majority_state_wins",
    "formed_member_holds_the_agreed_state",
    "spares_are_within_bounds",
    "restart_budget_is_global",
    "nothing_happens_after_the_end",
    "only_the_troubled_are_fenced",
    "every_loss_is_in_one_recovery",
    "recovery_ends_with_the_first_commit",
    "phases_of_a_recovery_add_up",
    "end_is_for_a_true_reason",
    "state_is_lost_only_when_nobody_holds_it",
    "right_rank_and_kind_named",
    "crash_is_noticed_in_time",
    "commits_again_after_the_last_fault",
    "ends_after_the_last_fault",
    "protocol_raises_no_error",
)

# A single fault of these kinds, at a rank, must be told by its rank and kind.
NAMED = {"process.kill": "crash", "process.stop": "stopped", "process.exception": "exception"}
CURED = ("desync", "divergence", "collective_error")
"""Causes that cost no process."""


class Checks:
    """Keeps the observer's record of one run."""

    __slots__ = (
        "banned_after",
        "causes",
        "genesis_over",
        "highest",
        "hostile",
        "losses",
        "openings",
        "owners",
        "regroups",
        "replaced",
        "spare_starts",
        "tainted_on_purpose",
        "world",
    )

    def __init__(self, world: World) -> None:
        self.world = world
        self.hostile = any(fault.name in NETWORK for fault in world.plan.faults)
        self.openings: dict[int, m.Open] = {}
        self.owners: dict[int, Worker] = {}
        self.highest = 0
        """The newest version that anyone has committed."""
        self.tainted_on_purpose: set[int] = {0}
        self.losses: Counter[int] = Counter()
        """Processes that were lost and whose rank was given to another, by number."""
        self.causes: Counter[int] = Counter()
        self.regroups = self.replaced = self.spare_starts = 0
        self.banned_after = False
        self.genesis_over = False

    def fail(self, invariant: str, detail: str) -> NoReturn:
        raise Violation(invariant, detail)

    # ------------------------------------------------------------------ what the coordinator does

    def acted(self, actions: list[m.Action]) -> None:
        """Before a batch of its actions is carried out."""
        if self.banned_after:
            self.fail("nothing_happens_after_the_end", f"{actions[0]} after the end")
        for position, action in enumerate(actions):
            if type(action) is m.End and position + 1 < len(actions):
                self.fail("nothing_happens_after_the_end", f"{actions[position + 1]} after {action}")

    def given(self, rank: int, proc: int) -> None:
        """A rank gets a process."""
        worker = self.started(rank, proc)
        former = self.owners.get(rank)
        if former is not None:
            self.replaced += self._costs_a_restart(former)
            self.losses[former.proc] += 1
            if self._may_act(former):
                self.fail(
                    "rank_is_given_away_only_after_death",
                    f"rank {rank} goes to process {proc} while process {former.proc} is not known dead",
                )
            if self.replaced > self.world.config.max_restarts:
                limit = self.world.config.max_restarts
                self.fail("restart_budget_is_global", f"{self.replaced} processes replaced, {limit} allowed")
        self.owners[rank] = worker

    def started(self, rank: int, proc: int) -> Worker:
        """The process that a rank gets."""
        worker = self.world.workers.get(proc)
        if worker is None:
            self.fail(
                "only_what_was_started_gets_a_rank", f"rank {rank} goes to process {proc}, never started"
            )
        return worker

    def _costs_a_restart(self, former: Worker) -> bool:
        return True

    def _may_act(self, former: Worker) -> bool:
        return not former.reaped

    def _live(self) -> list[Worker]:
        """Processes with a rank that the coordinator can still reach."""
        return [w for w in self.world.workers.values() if w.alive and w.machine.rank >= 0]

    def _told(self, proc: int) -> int:
        """In how many recoveries the loss of a process is named."""
        return self.causes[proc]

    def spare_started(self) -> None:
        self.spare_starts += 1
        world = self.world
        parked = sum(1 for w in world.workers.values() if w.rank is None and not w.reaped)
        if parked > world.config.spares:
            self.fail("spares_are_within_bounds", f"{parked} spares, {world.config.spares} allowed")

    def opened(self, opening: m.Open) -> None:
        world, generation = self.world, opening.generation
        if generation in self.openings or any(generation <= earlier for earlier in self.openings):
            self.fail("generation_moves_forward", f"generation {generation} is opened again")
        self.openings[generation] = opening
        ranks = [member.rank for member in opening.members]
        procs = {member.proc for member in opening.members}
        if ranks != list(range(world.plan.world)) or len(procs) != len(ranks):
            self.fail("members_agree_on_membership", f"members {opening.members}")
        if generation > 1:
            self.regroups += 1
            if self.regroups > world.config.max_restarts:
                self.fail("restart_budget_is_global", f"{self.regroups} regroups")
        self._state_is_right(opening)

    def _state_is_right(self, opening: m.Open) -> None:
        workers = self.world.workers
        receivers = frozenset(opening.receivers)
        holders = frozenset(opening.holders)
        clean = alive = 0
        for member in opening.members:
            worker = workers[member.proc]
            machine = worker.machine
            if not worker.alive:
                continue
            if machine.stage is not Stage.WAITING:
                self.fail(
                    "members_agree_on_membership",
                    f"generation {opening.generation} is opened while rank {member.rank} is"
                    f" {machine.stage.value}",
                )
            version = machine.version
            if version is not None and version > opening.version:
                self.fail(
                    "no_committed_step_is_lost_while_it_is_held",
                    f"rank {member.rank} holds step {version}, generation {opening.generation} starts from"
                    f" {opening.version}",
                )
            # What it reported: memory may have been struck since, which the receivers will notice.
            digest = worker.reported
            same = digest == opening.digest and (
                version == opening.version or (opening.genesis and version is None)
            )
            if member.rank in holders and not same:
                self.fail(
                    "state_source_holds_what_it_sends",
                    f"rank {member.rank} holds {version} {digest}, not {opening.version} {opening.digest}",
                )
            if same == (member.rank in receivers):
                self.fail(
                    "only_those_behind_adopt",
                    f"rank {member.rank} holds {version} {digest}; agreed are {opening.version}"
                    f" {opening.digest}, receivers {opening.receivers}",
                )
            if version == opening.version:
                alive += 1
                clean += digest == f"v{opening.version}"
        if clean * 2 > alive and opening.digest != f"v{opening.version}":
            self.fail("majority_state_wins", f"{opening.digest} is agreed, most hold it clean")
        if opening.genesis and self.highest and not self.genesis_over:
            self.fail("no_committed_step_is_lost_while_it_is_held", "training begins anew after a commit")

    def fenced(self, worker: Worker) -> None:
        if worker.struck or self.hostile or not worker.alive:
            return
        self.fail("only_the_troubled_are_fenced", f"process {worker.proc} (rank {worker.rank}) is healthy")

    def recovered(self, done: m.Recovered) -> None:
        phases = (done.detect_s, done.fence_s, done.regroup_s, done.transfer_s, done.resume_s)
        if min(phases) < -1e-9 or abs(done.since + sum(phases) - self.world.now) > 1e-6:
            self.fail("phases_of_a_recovery_add_up", f"{done} at {self.world.now}")
        for cause in done.causes:
            if cause.proc is not None and cause.kind not in CURED:
                self.causes[cause.proc] += 1
        if not self.hostile:
            self._named(done)

    def _named(self, done: m.Recovered) -> None:
        """With one fault alone, the record must say what was done to whom."""
        fired = self.world.fired
        if len(fired) != 1 or len(self.world.plan.faults) != 1:
            return
        fault, worker = fired[0]
        kind = NAMED.get(fault.name)
        if kind is None or worker is None or worker.rank is None or worker.parked:
            return
        told = [(cause.rank, cause.kind) for cause in done.causes]
        if fault.name == "process.stop" and not worker.fenced:
            return
        if told != [(worker.rank, kind)]:
            self.fail("right_rank_and_kind_named", f"{fault.name} of rank {worker.rank} is told as {told}")

    def ended(self, end: m.End) -> None:
        self.banned_after = True
        world = self.world
        live = self._live()
        if end.code == 0:
            self._finished(live)
        elif end.code == 3:
            holders = [w.rank for w in live if w.machine.version is not None and not w.fenced]
            if holders:
                self.fail("state_is_lost_only_when_nobody_holds_it", f"ranks {holders} hold it: {end.detail}")
        elif not self._true_reason(end):
            self.fail("end_is_for_a_true_reason", f"{end.reason}: {end.detail}; fired {world.fired_names()}")

    def _finished(self, live: list[Worker]) -> None:
        world = self.world
        if self.highest != world.plan.steps or live:
            detail = f"{self.highest} of {world.plan.steps} steps, {len(live)} ranks still run"
            self.fail("end_is_for_a_true_reason", detail)
        if self.hostile:
            return
        for proc in self.losses:
            times = self._told(proc)
            if times != 1:
                detail = f"process {proc} was replaced and is a cause of {times} recoveries"
                self.fail("every_loss_is_in_one_recovery", detail)

    def _true_reason(self, end: m.End) -> bool:
        """Whether what the job says of its failure has happened."""
        world = self.world
        names = world.fired_names()
        troubles = len(world.fired) + world.troubles
        match end.reason:
            case "replicas disagree":
                return "numeric.bitflip" in names
            case "script failed":
                return bool({"process.exception", "process.exit"} & set(names))
            case "failed after the last step":
                return bool(world.died_late)
            case "restart budget exhausted":
                return troubles > world.config.max_restarts
            case "deterministic failure":
                return troubles >= world.config.max_same_failure
            case "no progress":
                return troubles > world.config.max_without_progress
        return False

    # ------------------------------------------------------------------ what members do

    def entered(self, worker: Worker, generation: int) -> None:
        rank = worker.rank
        opening = self.openings.get(generation)
        assert rank is not None
        if opening is None or opening.members[rank].proc != worker.proc:
            self.fail(
                "one_owner_per_rank_and_generation",
                f"process {worker.proc} enters generation {generation} as rank {rank}",
            )
        if generation <= worker.newest_entered:
            self.fail("generation_moves_forward", f"rank {rank} enters generation {generation} again")
        worker.newest_entered = generation

    def reports(self, worker: Worker) -> None:
        """It is about to say what it holds."""
        version = worker.machine.version
        if version is not None and (worker.version != version or worker.taint < 0):
            self.fail(
                "what_is_reported_is_held",
                f"rank {worker.rank} reports step {version}, its memory is {worker.digest()}",
            )

    def stale(self, event: m.Event, generation: int, changed: bool) -> None:
        """A report of another generation than the coordinator's has been handled."""
        if changed:
            self.fail("stale_messages_change_nothing", f"{event} in generation {generation}")

    def gives(self, worker: Worker, opening: m.Open) -> None:
        if worker.taint and worker.taint in self.tainted_on_purpose:
            return  # its memory may have changed since it reported; the receivers will see it
        if worker.version != opening.version or worker.digest() != opening.digest:
            self.fail(
                "state_source_holds_what_it_sends",
                f"rank {worker.rank} gives {worker.digest()}, agreed is {opening.digest}",
            )

    def formed(self, worker: Worker) -> None:
        opening = worker.machine.opening
        if worker.taint and worker.taint in self.tainted_on_purpose:
            return
        if opening is None or worker.digest() != opening.digest or worker.version != opening.version:
            self.fail(
                "formed_member_holds_the_agreed_state",
                f"rank {worker.rank} holds {worker.digest()} as {worker.machine.version}, agreed:"
                f" {opening.digest if opening else None}",
            )

    def committed(self, worker: Worker, action: o.Commit) -> None:
        machine, generation = worker.machine, worker.machine.generation
        newest = self.world.coordinator.generation
        if generation != newest or self.owners.get(worker.rank) is not worker:  # type: ignore[arg-type]
            self.fail(
                "commit_is_by_a_member_of_the_newest_generation",
                f"process {worker.proc} (rank {worker.rank}) commits step {action.version} in generation"
                f" {generation}, the newest is {newest}",
            )
        version = action.version
        if version != worker.shadow[0] + 1 or version != worker.version or version > self.highest + 1:
            self.fail(
                "committed_step_is_monotone_and_gap_free",
                f"rank {worker.rank} commits {version} from {worker.shadow[0]}; memory {worker.version},"
                f" highest {self.highest}",
            )
        if worker.taint and worker.taint not in self.tainted_on_purpose:
            self.fail(
                "committed_state_is_agreed", f"rank {worker.rank} commits {worker.digest()} as {version}"
            )
        if version > self.highest:
            self.highest = version
            self.world.last_progress = self.world.now
        assert machine.version == version

    # ------------------------------------------------------------------ every event

    def every(self) -> None:
        """After each event."""
        coordinator = self.world.coordinator
        if coordinator.phase is Phase.ENDED and not self.banned_after:
            self.fail("nothing_happens_after_the_end", "the job has ended without saying so")
        if (
            coordinator.healing is not None
            and coordinator.version > coordinator.base_version
            and coordinator.phase is Phase.RUNNING
        ):
            self.fail(
                "recovery_ends_with_the_first_commit",
                f"step {coordinator.version} is committed and the recovery is still open",
            )
