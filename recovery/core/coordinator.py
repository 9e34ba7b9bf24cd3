"""The coordinator: who is alive, which generation is open, who holds state, when the job is over.

Rules it keeps
- One order at every fault: fence the lost process, release the survivors, and only then join.
  A rank is given to another process only after the former one has been reaped.
- A generation is opened only when every member has left the old one and said so (`Ready`), so no
  process can be in two, and no release of an old group can hit a new one.
- The newest committed version among the members wins. Its holders are those whose digests agree; a
  minority that disagrees adopts like everyone who is behind.
- State is never invented: when the last holder is gone, the job ends with that error.
- Restarts are counted here, once, for the whole job.
- Nothing is done after `End`.
"""

from __future__ import annotations

from collections import Counter

from recovery.core import messages as m
from recovery.core.config import Config
from recovery.core.errors import ProtocolError
from recovery.core.slots import IN_GENERATION, Healing, Phase, Slot, Status

__all__ = ["Coordinator", "Phase", "ProtocolError", "Slot", "Status"]


class Coordinator:
    """`begin()` once, then `handle(event, now)` for everything that happens; both return actions."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.phase = Phase.GATHERING
        self.generation = 0
        self.version = 0
        self.slots = [Slot(rank) for rank in range(config.world_size)]
        self._by_proc: dict[int, Slot] = {}
        self._count = Counter({Status.VACANT: config.world_size})
        self.spares: dict[int, bool] = {}
        """proc -> stopped?"""
        self.dying_spares: set[int] = set()
        self.had_state = False
        self.healing: Healing | None = None
        self.restarts = 0
        self.without_progress = 0
        self.same_failure: Counter[tuple[int | None, str, int]] = Counter()
        self.spare_failures = 0
        self.step_s: float | None = None
        self._procs = 0
        self.base_version = 0
        """The version that the newest generation started from."""
        self._genesis = False
        self._finish_by: float | None = None
        """When the rest of this generation must have finished, once one member has."""
        self._next_release = 0.0

    # ------------------------------------------------------------------ entry points

    def begin(self, now: float) -> list[m.Action]:
        """Ask for the first processes."""
        return [action for slot in self.slots for action in self._start(slot, now)]

    def handle(self, event: m.Event, now: float) -> list[m.Action]:
        """Take one event; return what must be done, in order.

        Raises:
            ProtocolError: a process reports something that its state does not allow.
        """
        if self.phase is Phase.ENDED:
            return []
        match event:
            case m.Tick():
                return self._tick(now)
            case m.Pace(step_s=step_s):
                self.step_s = step_s
                return []
            case m.Accused(proc=None, generation=generation):
                if generation != self.generation or self.phase is not Phase.RUNNING:
                    return []
                cause = m.Cause(None, event.kind, event.detail)
                return self._interrupt(cause, event.since, now)
            case m.Exited(proc=proc) if proc in self.spares or proc in self.dying_spares:
                return self._spare_exited(proc)
            case m.Stopped(proc=proc) if proc in self.spares:
                self.spares[proc] = True
                return []
            case m.Continued(proc=proc) if proc in self.spares:
                self.spares[proc] = False
                return []
        slot = self._by_proc.get(event.proc) if event.proc is not None else None
        if slot is None:
            return []  # a process that has been replaced, or a spare: its words no longer count
        match event:
            case m.Started():
                return []
            case m.Exited():
                return self._exited(slot, event, now)
            case m.Stopped():
                slot.stopped_at, slot.stopped_since = now, event.since
                return []
            case m.Continued():
                slot.stopped_at = None
                return []
            case m.Busy(until=until):
                slot.busy_until = until
                return []
            case _ if slot.status in (Status.DYING, Status.LEFT):
                return []
            case m.Ready():
                return self._ready(slot, event, now)
            case m.Failed():
                return self._failed(slot, event, now)
            case m.Formed():
                return self._formed(slot, event, now)
            case m.Committed():
                return self._committed(slot, event, now)
            case m.Accused():
                return self._accused(slot, event, now)
        raise ProtocolError(f"{event} is not a known event")

    # ------------------------------------------------------------------ reports of members

    def _ready(self, slot: Slot, event: m.Ready, now: float) -> list[m.Action]:
        if event.generation != slot.opened or slot.status is Status.READY:
            return []  # delivered late, or twice
        if self.phase is Phase.LEAVING:
            raise ProtocolError(f"rank {slot.rank} is ready although everyone has left")
        actions: list[m.Action] = []
        if slot.status in IN_GENERATION and not event.finished:
            if event.left_because is None:
                raise ProtocolError(f"rank {slot.rank} left generation {self.generation} without a reason")
            # Its `Failed` has been overtaken or lost; this says the same.
            cause = m.Cause(None, event.left_because, f"rank {slot.rank} has left", None)
            actions = self._interrupt(cause, None, now)
            if self.phase is Phase.ENDED:
                return actions
        self._set(slot, Status.READY)
        slot.deadline = float("inf")
        slot.version, slot.digest, slot.finished = event.version, event.digest, event.finished
        slot.holds = event.version is not None
        if event.version is not None:
            self.had_state = True
            self.version = max(self.version, event.version)
        if event.finished:
            self._expect_the_others(now)
            if self.phase is Phase.RUNNING and self.version > self.base_version:
                actions += self._recovered(now)  # no report of a first commit has come, but this proves it
        return [*actions, *self._when_all_ready(now)]

    def _expect_the_others(self, now: float) -> None:
        """Who has finished enters no collective, so the others are not late for one: they get a deadline."""
        if self._finish_by is not None:
            return
        limit_s = max(self.config.cold_limit_s, self.config.hang_limit_s(self.step_s, warm=True))
        self._finish_by = now + limit_s
        for slot in self.slots:
            if slot.status is Status.RUNNING:
                slot.deadline = self._finish_by

    def _when_all_ready(self, now: float) -> list[m.Action]:
        if self._count[Status.READY] < len(self.slots):
            return []
        if all(slot.finished for slot in self.slots) and len({s.version for s in self.slots}) == 1:
            actions = self._recovered(now)
            self.phase = Phase.LEAVING
            return [*actions, m.Leave()]
        return self._open(now)

    def _open(self, now: float) -> list[m.Action]:
        stop = self._budget_exceeded()
        if stop is not None:
            return self._end(1, *stop)
        versions = [slot.version for slot in self.slots if slot.version is not None]
        genesis = not versions
        if genesis and self.had_state and not self._nothing_was_committed():
            return self._state_lost()
        version = max(versions, default=0)
        actions: list[m.Action] = []
        holders: tuple[int, ...] = (0,)
        digest = self.slots[0].digest
        if not genesis:
            newest = [slot for slot in self.slots if slot.version == version]
            digests = Counter(slot.digest for slot in newest)
            digest, votes = digests.most_common(1)[0]
            if votes * 2 <= len(newest) and len(digests) > 1:
                return self._end(1, "replicas disagree", self._disagreement(newest))
            holders = tuple(slot.rank for slot in newest if slot.digest == digest)
            for slot in newest:
                if slot.digest != digest:
                    detail = f"rank {slot.rank} holds {slot.digest}, the majority {digest}"
                    cause = m.Cause(slot.rank, "divergence", detail, slot.proc)
                    actions.append(m.Note("recovery.divergence", cause, self.generation))
        receivers = tuple(s.rank for s in self.slots if s.version != version or s.digest != digest)
        if genesis:
            receivers = tuple(slot.rank for slot in self.slots if slot.digest != digest)
        adopting = frozenset(receivers)
        self.generation += 1
        self.phase = Phase.FORMING
        self._genesis, self._finish_by = genesis, None
        self.base_version = self.version = version
        for slot in self.slots:
            self._set(slot, Status.FORMING)
            slot.opened, slot.deadline = self.generation, now + self.config.form_limit_s
            # It holds the agreed state as soon as it is connected, whether or not it lives to say so.
            slot.holds = slot.holds or slot.rank not in adopting
        members = tuple(m.Member(slot.rank, slot.proc) for slot in self.slots)
        cause_name = self.healing.causes[0].kind if self.healing else "start"
        opening = m.Open(self.generation, members, version, digest, holders, receivers, genesis, cause_name)
        return [*actions, opening]

    def _nothing_was_committed(self) -> bool:
        """A commit needs every member, so one that never came to hold the first state disproves it."""
        witnesses = (slot for slot in self.slots if slot.opened == self.generation and slot.version is None)
        return self._genesis and next(witnesses, None) is not None

    def _failed(self, slot: Slot, event: m.Failed, now: float) -> list[m.Action]:
        healing = self.healing
        # The others may have felt the break before the one who knows its reason was heard.
        explains = (
            slot.status is Status.RETURNING
            and event.kind != "collective_error"
            and healing is not None
            and healing.unexplained == self.generation
        )
        if event.generation != self.generation or not (slot.status in IN_GENERATION or explains):
            return []  # it noticed what has been dealt with already
        rank = event.suspect
        proc = self.slots[rank].proc if rank is not None else None
        return self._interrupt(m.Cause(rank, event.kind, event.detail, proc), None, now)

    def _formed(self, slot: Slot, event: m.Formed, now: float) -> list[m.Action]:
        if event.generation != self.generation or slot.status is not Status.FORMING:
            return []
        self._set(slot, Status.RUNNING)
        slot.deadline = self._finish_by if self._finish_by is not None else float("inf")
        slot.holds = self.had_state = True
        if self.healing:
            self.healing.transfer_s = max(self.healing.transfer_s, event.transfer_s)
            self.healing.bytes_received += event.bytes_received
        if self._count[Status.FORMING]:
            return []
        self.phase = Phase.RUNNING
        if not self.healing:
            return self._refill_spares()
        self.healing.formed = now
        resume: list[m.Action] = [m.Note("recovery.resume", None, self.generation)]
        # A member's first commit needs every other member, but not their word that they have formed.
        return [*resume, *self._recovered(now)] if self.version > self.base_version else resume

    def _committed(self, slot: Slot, event: m.Committed, now: float) -> list[m.Action]:
        slot.warm = True
        if event.version > self.version:
            self.version = event.version
            self.without_progress = 0
        current = self.phase is Phase.RUNNING and event.generation == self.generation
        return self._recovered(now) if current and event.version > self.base_version else []

    # ------------------------------------------------------------------ losses

    def _accused(self, slot: Slot, event: m.Accused, now: float) -> list[m.Action]:
        if event.generation != self.generation or slot.status not in IN_GENERATION:
            return []
        cause = m.Cause(slot.rank, event.kind, event.detail, slot.proc)
        if event.kind == "desync":
            # The process is alive and rolls back like the others: replacing it would cure nothing more.
            return self._interrupt(cause, event.since, now)
        return self._fence(slot, cause, event.since, now)

    def _exited(self, slot: Slot, event: m.Exited, now: float) -> list[m.Action]:
        if self.phase is Phase.LEAVING:
            return self._exited_after_the_end(slot, event)
        early = slot.status is Status.STARTING and not self.had_state
        if early and (event.signal is None):
            why = event.error or (
                f"exited with code {event.code} before its first step"
                " (a script must call recovery.join() and run.steps())"
            )
            return self._end(1, "script failed", f"rank {slot.rank}: {why}")
        known = slot.status is Status.DYING
        self._set(slot, Status.VACANT)
        slot.holds = slot.warm = False
        slot.version = slot.digest = slot.stopped_at = None
        slot.finished, slot.busy_until = False, 0.0
        actions: list[m.Action] = []
        if not known:
            cause = m.Cause(slot.rank, "exception" if event.error else "crash", _why(event), slot.proc)
            actions += self._interrupt(cause, event.since, now)
            if self.phase is Phase.ENDED:
                return actions
        if self.had_state and not any(other.holds or self._may_hold(other) for other in self.slots):
            return [*actions, *self._state_lost()]
        if not self._count[Status.DYING] and self.healing:
            self.healing.fenced = now
            actions.append(m.Note("recovery.fence", None, self.generation))
        return [*actions, *self._replace(slot, now)]

    def _may_hold(self, slot: Slot) -> bool:
        """It was told to adopt the state, and has not said since what it holds: it will, or be fenced."""
        return slot.status in (Status.FORMING, Status.RETURNING) and slot.opened == self.generation

    def _fence(self, slot: Slot, cause: m.Cause, since: float | None, now: float) -> list[m.Action]:
        self._doom(slot)
        fence = m.Fence(slot.proc, f"{cause.kind}: {cause.detail}")
        actions = self._interrupt(cause, since, now)
        # Fence before release, but after the note that says why.
        actions.insert(1 if actions and isinstance(actions[0], m.Note) else 0, fence)
        return actions

    def _doom(self, slot: Slot) -> None:
        """Its process is as good as dead: nothing more is expected of it but its end."""
        self._set(slot, Status.DYING)
        slot.deadline, slot.stopped_at = float("inf"), None

    def _interrupt(self, cause: m.Cause, since: float | None, now: float) -> list[m.Action]:
        """Stop the current generation because of `cause`; a further cause joins a running recovery."""
        if self.healing is None:
            self.healing = Healing(since if since is not None else now, now)
        healing = self.healing
        felt = cause.kind == "collective_error"
        # A generation breaks once: what its survivors feel (a broken collective) is an echo of what is
        # known already, or is explained by a loss that is named later. Another generation's is new.
        echo = felt and healing.broken == self.generation
        if healing.unexplained is not None and not felt:
            healing.causes[-1] = cause
            healing.counted = min(healing.counted, len(healing.causes) - 1)
            self.restarts += healing.unexplained != self.generation
            healing.unexplained = None
        elif not echo:
            healing.causes.append(cause)
            self.restarts += 1
            healing.unexplained = self.generation if felt else None
        healing.broken = self.generation
        healing.formed = None
        actions: list[m.Action] = [] if echo else [m.Note("recovery.detect", cause, self.generation)]
        if self.restarts > self.config.max_restarts:
            detail = f"{self.restarts} restarts, {self.config.max_restarts} allowed; last: {_name(cause)}"
            return [*actions, *self._end(1, "restart budget exhausted", detail)]
        if len(healing.causes) > self.config.max_without_progress:
            detail = f"{len(healing.causes)} losses in one recovery; last: {_name(cause)}"
            return [*actions, *self._end(1, "no progress", detail)]
        if self.phase in (Phase.FORMING, Phase.RUNNING):
            self.phase = Phase.GATHERING
            for slot in self.slots:
                if slot.status in IN_GENERATION:
                    self._set(slot, Status.RETURNING)
                    slot.deadline = now + self.config.hang_limit_s(self.step_s, slot.warm)
            self._next_release = now + self.config.rerelease_s
            actions += self._release()
        return actions

    def _release(self) -> list[m.Action]:
        return [
            m.Release(slot.proc, self.generation) for slot in self.slots if slot.status is Status.RETURNING
        ]

    def _replace(self, slot: Slot, now: float) -> list[m.Action]:
        spare = next((proc for proc, stopped in self.spares.items() if not stopped), None)
        if spare is None:
            return self._start(slot, now)
        return self._promote(slot, spare, now)

    def _promote(self, slot: Slot, spare: int, now: float) -> list[m.Action]:
        del self.spares[spare]
        self._assign(slot, spare)
        self._set(slot, Status.STARTING)
        slot.deadline = now + self.config.start_limit_s
        return [m.Promote(spare, slot.rank)]

    def _start(self, slot: Slot, now: float, node: int = 0) -> list[m.Action]:
        self._procs += 1
        self._assign(slot, self._procs)
        self._set(slot, Status.STARTING)
        slot.deadline = now + self.config.start_limit_s
        return [m.Start(self._procs, slot.rank, node)]

    # ------------------------------------------------------------------ time

    def _tick(self, now: float) -> list[m.Action]:
        actions: list[m.Action] = []
        for slot in self.slots:
            if self.phase is Phase.ENDED:
                break
            live = slot.status not in (Status.VACANT, Status.DYING, Status.LEFT)
            if live and slot.stopped_at is not None and now - slot.stopped_at >= self.config.stop_grace_s:
                cause = m.Cause(slot.rank, "stopped", "the kernel reports state T", slot.proc)
                actions += self._fence(slot, cause, slot.stopped_since, now)
            elif slot.status in (Status.STARTING, Status.RETURNING, Status.RUNNING):
                if now >= max(slot.deadline, slot.busy_until):
                    actions += self._overdue(slot, now)
            elif slot.status is Status.FORMING and now >= slot.deadline:
                detail = f"generation {self.generation} was not formed in {self.config.form_limit_s:g} s"
                actions += self._interrupt(m.Cause(None, "hang", detail), None, now)
        if self.phase is Phase.GATHERING and now >= self._next_release:
            self._next_release = now + self.config.rerelease_s
            actions += self._release()
        return actions

    def _overdue(self, slot: Slot, now: float) -> list[m.Action]:
        if slot.status is Status.RUNNING:
            # It may wait for what was lost with one that had finished: released, it comes out and adopts what
            # the others hold. If it does not, it is ended below, and named.
            cause = m.Cause(None, "hang", f"rank {slot.rank} did not finish after the others had")
            actions = self._interrupt(cause, None, now)
            if self.healing is not None:
                self.healing.unfinished = (slot.proc, cause)
            return actions
        if slot.status is Status.STARTING:
            cause = m.Cause(slot.rank, "hang", "was not ready in time after its start", slot.proc)
            return self._fence(slot, cause, None, now)
        healing = self.healing
        if healing is not None and healing.unfinished is not None and healing.unfinished[0] == slot.proc:
            cause = m.Cause(slot.rank, "hang", "did not finish after the others had", slot.proc)
            healing.causes[healing.causes.index(healing.unfinished[1])] = cause
            self._doom(slot)
            return [
                m.Note("recovery.detect", cause, self.generation),
                m.Fence(slot.proc, f"hang: {cause.detail}"),
            ]
        # Not a fault of its own: it is caught in what the others' has left.
        what = "did not come out of the interrupted generation in time"
        return self._fence(slot, m.Cause(slot.rank, "collateral", what, slot.proc), None, now)

    def due(self) -> float:
        """When a `Tick` will next have something to do, if nothing else happens; inf for never."""
        when = float("inf")
        if self.phase is Phase.ENDED:
            return when
        for slot in self.slots:
            status = slot.status
            if slot.stopped_at is not None and status not in (Status.VACANT, Status.DYING, Status.LEFT):
                when = min(when, slot.stopped_at + self.config.stop_grace_s)
            if status is Status.FORMING:
                when = min(when, slot.deadline)
            elif status in (Status.STARTING, Status.RETURNING, Status.RUNNING):
                when = min(when, max(slot.deadline, slot.busy_until))
        if self._count[Status.RETURNING] and self.phase is Phase.GATHERING:
            when = min(when, self._next_release)
        return when

    # ------------------------------------------------------------------ spares and endings

    def _refill_spares(self) -> list[m.Action]:
        if self.spare_failures > self.config.max_same_failure:
            return []
        actions: list[m.Action] = []
        while len(self.spares) < self.config.spares:
            self._procs += 1
            self.spares[self._procs] = False
            actions.append(m.Start(self._procs, None))
        return actions

    def _spare_exited(self, proc: int) -> list[m.Action]:
        self.spares.pop(proc, None)
        self.dying_spares.discard(proc)
        self.spare_failures += 1
        return self._refill_spares() if self.phase is Phase.RUNNING and self.healing is None else []

    def _recovered(self, now: float) -> list[m.Action]:
        healing, self.healing = self.healing, None
        if healing is None:
            return []
        refill = self._refill_spares()
        fenced = healing.fenced if healing.fenced is not None else healing.detected
        formed = healing.formed if healing.formed is not None else now
        connected = max(fenced, formed - healing.transfer_s)
        done = m.Recovered(
            generation=self.generation,
            causes=tuple(healing.causes),
            since=healing.since,
            detect_s=healing.detected - healing.since,
            fence_s=fenced - healing.detected,
            regroup_s=connected - fenced,
            transfer_s=formed - connected,
            resume_s=now - formed,
            bytes_received=healing.bytes_received,
        )
        return [done, *refill]

    def _budget_exceeded(self) -> tuple[str, str] | None:
        if self.healing is None:
            return None
        fresh = self.healing.causes[self.healing.counted :]
        self.healing.counted = len(self.healing.causes)
        self.without_progress += len(fresh)
        for cause in fresh:
            if cause.kind in ("collective_error", "node_lost", "unreachable"):
                continue  # a slow network, a lost node: no bug that comes back at the same step
            key = (cause.rank, cause.kind, self.version)
            self.same_failure[key] += 1
            if self.same_failure[key] >= self.config.max_same_failure:
                times = self.same_failure[key]
                return "deterministic failure", f"{times} times at step {self.version}: {_name(cause)}"
        if self.without_progress > self.config.max_without_progress:
            last = self.healing.causes[-1]
            return "no progress", f"{self.without_progress} faults at step {self.version}: {_name(last)}"
        return None

    def _state_lost(self) -> list[m.Action]:
        for cause in self.healing.causes if self.healing else []:
            if cause.kind == "exception":
                return self._end(1, "script failed", _name(cause))
        last = self.healing.causes[-1] if self.healing else None
        detail = f"no live rank holds the state of step {self.version}"
        return self._end(3, "state lost", detail + (f"; last loss: {_name(last)}" if last else ""))

    def _exited_after_the_end(self, slot: Slot, event: m.Exited) -> list[m.Action]:
        if event.code != 0:
            return self._end(1, "failed after the last step", f"rank {slot.rank}: {_why(event)}")
        self._set(slot, Status.LEFT)
        if self._count[Status.LEFT] == len(self.slots):
            return self._end(0, "finished", f"{self.version} steps committed")
        return []

    def _end(self, code: int, reason: str, detail: str) -> list[m.Action]:
        self.phase = Phase.ENDED
        return [m.End(code, reason, detail)]

    def _disagreement(self, newest: list[Slot]) -> str:
        held = ", ".join(f"rank {slot.rank} {slot.digest}" for slot in newest)
        return f"no majority at step {self.version}: {held}"

    def _set(self, slot: Slot, status: Status) -> None:
        self._count[slot.status] -= 1
        self._count[status] += 1
        slot.status = status

    def _assign(self, slot: Slot, proc: int) -> None:
        """Give a vacant rank to a process."""
        self._by_proc.pop(slot.proc, None)
        slot.proc, slot.opened = proc, 0
        self._by_proc[proc] = slot


def _why(event: m.Exited) -> str:
    if event.error:
        return event.error
    return f"signal {event.signal}" if event.signal is not None else f"exit code {event.code}"


def _name(cause: m.Cause) -> str:
    who = "a member" if cause.rank is None else f"rank {cause.rank}"
    return f"{who}: {cause.kind} ({cause.detail})"
