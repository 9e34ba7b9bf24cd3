"""Reading the members' progress counters: who is busy, how fast steps are, who is late or out of step."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from recovery.core import messages as m
from recovery.core.blame import Progress, judge
from recovery.core.config import Config
from recovery.core.coordinator import Coordinator, Phase, Slot, Status
from recovery.core.pace import pace_of
from recovery.core.straggler import Straggler, Stragglers
from recovery.shell import page as words
from recovery.shell.page import Page

BUSY_MOVED_S = 0.2
"""A declared busy phase that seems to end this much earlier or later is another one: what comes from other
nodes arrives with some jitter."""


class Watch:
    """Looks at one page, for one coordinator.

    Args:
        starved_s: how long a process has waited for a core since its last sign of life.
        fresh: whether all that the page says is recent, at a moment; what is stale accuses no one.
        named: told of a rank that holds the others up.
    """

    def __init__(
        self,
        page: Page,
        config: Config,
        starved_s: Callable[[int, words.Slot], float],
        fresh: Callable[[float], bool],
        named: Callable[[Straggler], None],
    ) -> None:
        self._page, self._config = page, config
        self._starved_s, self._fresh = starved_s, fresh
        self._named, self._stragglers = named, Stragglers()
        self._busy: dict[int, float] = {}

    def forget(self, proc: int) -> None:
        """The process is gone."""
        self._busy.pop(proc, None)

    def events(self, coordinator: Coordinator, now: float) -> Iterator[m.Event]:
        """What there is to tell the coordinator; it should be told each before the next is asked for."""
        for slot in coordinator.slots:
            until = self._page.slots[slot.rank].floats[words.BUSY_UNTIL]
            if abs(until - self._busy.get(slot.proc, 0.0)) > BUSY_MOVED_S:
                self._busy[slot.proc] = until
                yield m.Busy(slot.proc, until)
        if coordinator.phase is not Phase.RUNNING or not self._fresh(now):
            return
        members = [slot for slot in coordinator.slots if slot.status is Status.RUNNING]
        if len(members) < len(coordinator.slots):
            return  # some have finished: nothing is left to wait for
        yield from self._late_or_out_of_step(coordinator, members, now)

    def _late_or_out_of_step(
        self, coordinator: Coordinator, members: list[Slot], now: float
    ) -> Iterator[m.Event]:
        generation = coordinator.generation
        slots = [self._page.slots[slot.rank] for slot in members]
        if any(slot.ints[words.GENERATION] != generation for slot in slots):
            return
        step_s = pace_of(slot.floats[words.STEP_S] for slot in slots if slot.ints[words.COMMITS] > 1)
        if step_s is not None and step_s != coordinator.step_s:
            yield m.Pace(step_s)
        common = min(slot.ints[words.ISSUED] for slot in slots)
        read = [
            self._progress(member.rank, member.proc, slot, generation, common)
            for member, slot in zip(members, slots, strict=True)
        ]
        known = [progress for progress in read if progress is not None]
        if len(known) < len(members):
            return
        straggler = self._stragglers.look(known, step_s, now)
        if straggler is not None:
            self._named(straggler)
        verdict = judge(known, self._config, step_s, now)
        if verdict is not None:
            yield m.Accused(verdict.proc, generation, verdict.kind, verdict.detail, verdict.since)

    def _progress(
        self, rank: int, proc: int, slot: words.Slot, generation: int, common: int
    ) -> Progress | None:
        # Before the version: who has committed and gone on to the next step must not look as if it were
        # further inside the old one.
        issued = slot.ints[words.ISSUED]
        # And before the sign of life with which a busy phase ends.
        busy_until = slot.floats[words.BUSY_UNTIL]
        chain = slot.chain_at(common) if common else 0
        if chain is None or slot.chain_at(issued) is None:
            return None  # it wrote meanwhile, or is far ahead: look again at the next tick
        return Progress(
            rank=rank,
            proc=proc,
            generation=generation,
            version=slot.ints[words.VERSION],
            warm=slot.ints[words.COMMITS] > 1,
            issued=issued,
            done=slot.ints[words.DONE],
            issued_at=slot.floats[words.ISSUED_AT],
            changed_at=slot.floats[words.CHANGED_AT],
            busy_until=busy_until,
            starved_s=self._starved_s(proc, slot),
            common_chain=chain,
            sealing=bool(slot.ints[words.SEALING]),
        )
