"""Progress counters in shared memory: one slot a rank, written by its member, read by everyone.

The supervisor reads them from outside, so a held GIL or a frozen process can't hide. Each member also
reads its peers': a collective's result is used only if every peer entered the same collective.
Fields are aligned 8-byte words, which x86-64 and arm64 store whole.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Mapping
from typing import Any

SLOT_BYTES = 8192
RING = 512
"""Fingerprints kept for the last collectives. A peer can't be further ahead: it waits for us."""

# word offsets in a slot
GENERATION, VERSION, ISSUED, DONE, COMMITS, SEALED_STEP, SEALED_CHAIN, PID = range(8)
ISSUED_AT, CHANGED_AT, BUSY_UNTIL, STEP_S = range(8, 12)
SEALING, STARVED_S, LEASE_UNTIL = range(12, 15)
COPIED_INTS = (*range(8), SEALING)
COPIED_TIMES = (ISSUED_AT, CHANGED_AT)
RING_AT = 64
RING_COPIED = 64
"""How many of the last fingerprints travel to the coordinator: ranks are never that far apart."""


class Page:
    """The memory of one job; slot `world_size` holds the supervisor's own word."""

    def __init__(self, world_size: int, fd: int | None = None) -> None:
        self.world_size = world_size
        size = SLOT_BYTES * (world_size + 1)
        if fd is None:
            fd = os.memfd_create("recovery-progress", os.MFD_CLOEXEC)
            os.ftruncate(fd, size)
        self.fd = fd
        self._map = mmap.mmap(fd, size)
        view = memoryview(self._map)
        words = SLOT_BYTES // 8
        ints, floats = view.cast("q"), view.cast("d")
        self.slots = [
            Slot(ints[i * words : (i + 1) * words], floats[i * words : (i + 1) * words])
            for i in range(world_size + 1)
        ]

    @property
    def open_generation(self) -> int:
        """The newest generation that is not abandoned; 0 while members must regroup."""
        return self.slots[self.world_size].ints[GENERATION]

    @open_generation.setter
    def open_generation(self, generation: int) -> None:
        self.slots[self.world_size].ints[GENERATION] = generation

    @property
    def lease_until(self) -> float:
        """Until when this node may act, by `lease_clock`; 0 where there is no lease."""
        return self.slots[self.world_size].floats[LEASE_UNTIL]

    @lease_until.setter
    def lease_until(self, until: float) -> None:
        self.slots[self.world_size].floats[LEASE_UNTIL] = until

    def may_act(self, now: float) -> bool:
        """Also true of a node without a lease. The supervisor may be frozen, so members look themselves."""
        until = self.lease_until
        return until == 0.0 or now < until


class Slot:
    """One member's counters."""

    def __init__(self, ints: memoryview[int], floats: memoryview[float]) -> None:
        self.ints = ints
        self.floats = floats

    def enter(self, generation: int, version: int) -> None:
        """A new generation: counters start again. `GENERATION` is written last, readers check it first."""
        ints = self.ints
        ints[GENERATION] = 0
        ints[ISSUED] = ints[DONE] = 0
        ints[SEALED_STEP], ints[SEALED_CHAIN], ints[SEALING] = -1, 0, 0
        ints[RING_AT] = 0
        ints[VERSION] = version
        if ints[PID] != os.getpid():
            ints[COMMITS] = 0
        ints[PID] = os.getpid()
        self.floats[BUSY_UNTIL] = 0.0
        self.alive()
        ints[GENERATION] = generation

    def leave(self) -> None:
        self.ints[GENERATION] = 0

    def alive(self) -> None:
        self.floats[CHANGED_AT] = time.monotonic()

    def issue(self, chain: int) -> int:
        """Enter the next collective; returns its number (1-based within the generation)."""
        ints = self.ints
        number = ints[ISSUED] + 1
        ints[RING_AT + number % RING] = chain
        now = time.monotonic()
        self.floats[ISSUED_AT] = self.floats[CHANGED_AT] = now
        ints[ISSUED] = number
        return int(number)

    def done(self) -> None:
        self.ints[DONE] += 1
        self.alive()

    def chain_at(self, number: int) -> int | None:
        """Fingerprint of the sequence up to collective `number`, None if not entered or long past."""
        issued = self.ints[ISSUED]
        if number > issued or number <= issued - RING:
            return None
        return int(self.ints[RING_AT + number % RING])

    def committed(self, version: int, pace_s: float) -> None:
        self.floats[STEP_S] = pace_s
        self.ints[VERSION] = version
        self.ints[COMMITS] += 1
        self.alive()

    # ------------------------------------------------------------------ to the coordinator's node

    def sample(self, now: float, starved_s: float) -> dict[str, Any]:
        """A copy that can travel. Times travel as ages: clocks of different nodes do not agree."""
        ints, floats = self.ints, self.floats
        generation = ints[GENERATION]
        # Read once, and before the version (see `Watch._progress`): the member writes on meanwhile, and each
        # fingerprint belongs to its number.
        issued = ints[ISSUED]
        busy_s = max(0.0, floats[BUSY_UNTIL] - now)  # before the sign of life with which a busy phase ends
        oldest = max(0, issued - RING_COPIED + 1)
        copied = {word: ints[word] for word in COPIED_INTS}
        sample: dict[str, Any] = {
            "ints": list({**copied, GENERATION: generation, ISSUED: issued}.values()),
            "ages": [now - floats[word] for word in COPIED_TIMES],
            "busy_s": busy_s,
            "step_s": floats[STEP_S],
            "starved_s": starved_s,
            "ring": [ints[RING_AT + number % RING] for number in range(oldest, issued + 1)],
        }
        if ints[GENERATION] != generation:
            sample["ints"][COPIED_INTS.index(GENERATION)] = 0  # half of one and half of another
        return sample

    def put(self, sample: Mapping[str, Any], now: float) -> None:
        """Take over a sample of the same rank from another node."""
        for word, value in zip(COPIED_INTS, sample["ints"], strict=True):
            self.ints[word] = int(value)
        for word, age in zip(COPIED_TIMES, sample["ages"], strict=True):
            self.floats[word] = now - float(age)
        busy_s = float(sample["busy_s"])
        self.floats[BUSY_UNTIL] = now + busy_s if busy_s else 0.0
        self.floats[STEP_S] = float(sample["step_s"])
        self.floats[STARVED_S] = float(sample["starved_s"])
        issued = self.ints[ISSUED]
        for back, chain in enumerate(reversed(sample["ring"])):
            self.ints[RING_AT + (issued - back) % RING] = int(chain)
