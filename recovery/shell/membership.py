"""One process's place in the current generation: its counters, its error flag, its sequence of collectives.

The flag is the truth about a failed collective. User code may swallow what is raised, and a future that
the reducer waits for can't carry an error, so whoever wants to use a result asks the flag.
"""

from __future__ import annotations

import sys
import time
import zlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import NoReturn

from recovery.core.blame import SETTLED_S, odd_one_out
from recovery.errors import Interrupted, OutsideStep
from recovery.shell.agreement import Agreement
from recovery.shell.linux import lease_clock
from recovery.shell.page import ISSUED, SEALED_CHAIN, SEALED_STEP, SEALING, Page

_LIBRARY_FOLDERS = (
    str(Path(__file__).resolve().parent.parent),
    str(Path(sys.prefix)),
    str(Path(sys.base_prefix)),
)


class Membership:
    """Shared by every process group of this process.

    Threads: `fail` and `finished` are also called from the backend's completion threads.
    """

    def __init__(self, page: Page, rank: int) -> None:
        self.page = page
        self.rank = rank
        self.slot = page.slots[rank]
        self.peers = [(i, slot) for i, slot in enumerate(page.slots[: page.world_size]) if i != rank]
        self.generation = 0
        self.error: str | None = None
        self.error_kind = "collective_error"
        self.suspect: int | None = None
        self.in_step = False
        self.step = -1
        self.chain = 0
        self.agreement: Agreement | None = None
        """How the sequences are compared in a job of several nodes."""
        self._pattern = 0
        self._last_pattern: int | None = None
        self._sites: dict[tuple[str, int], int] = {}

    # ------------------------------------------------------------------ generations and steps

    def enter(self, generation: int, version: int) -> None:
        self.slot.enter(generation, version)
        self.generation, self.error, self.suspect = generation, None, None
        self.error_kind = "collective_error"
        self.chain = self._pattern = 0
        self._last_pattern = None

    def leave(self) -> None:
        self.slot.leave()
        self.generation = 0

    def begin_step(self, step: int) -> None:
        self.in_step, self.step, self._pattern = True, step, 0
        self.slot.alive()

    def end_step(self) -> None:
        self.in_step = False

    # ------------------------------------------------------------------ collectives

    def gate(self) -> None:
        """Before a collective is entered.

        Raises:
            Interrupted: inside a step, when the generation is over.
            OutsideStep: outside a step, when there is no generation to use.
        """
        if self.error is None and self.generation and self.page.open_generation == self.generation:
            return
        if self.in_step:
            self.fail("the generation has ended")
            raise Interrupted(self.error)
        raise OutsideStep(
            "a collective was issued outside run.step while no generation is open\n"
            "  mend: move it into the step function, where it is replayed after a fault"
        )

    def issue(self, what: str) -> None:
        """Count a collective and extend the fingerprint of the sequence."""
        site = self._call_site()
        self._pattern = zlib.crc32(what.encode(), self._pattern ^ site)
        self.chain = zlib.crc32(f"{self.step}{what}".encode(), self.chain ^ site)
        self.slot.issue(self.chain)

    def finished(self) -> None:
        self.slot.done()

    def fail(self, reason: str, kind: str = "collective_error", suspect: int | None = None) -> None:
        """Flag this generation as broken; the first reason is kept."""
        if self.error is None:
            self.error, self.error_kind, self.suspect = reason, kind, suspect

    # ------------------------------------------------------------------ agreement on the sequence

    def seal(self) -> None:
        """Before a commit: every peer has entered the same collectives as this rank.

        A completed all-reduce proves that the peers entered *some* collective; their fingerprints in
        shared memory say which. A step with the same sequence as the one before is sure after one look.
        A step with another sequence waits until the peers have finished theirs, so that a rank which
        left a collective out can't commit alone.

        Raises:
            Interrupted: the sequences differ, or the generation ended meanwhile.
        """
        if self.error is not None:
            raise Interrupted(self.error)
        ints = self.slot.ints
        ints[SEALED_CHAIN], ints[SEALED_STEP] = self.chain, self.step
        if self.agreement is not None:
            self._agree(self.agreement)
            return
        self._compare()
        if self._pattern != self._last_pattern:
            ints[SEALING] = 1
            try:
                self._wait_for_peers()
            finally:
                ints[SEALING] = 0
        self._last_pattern = self._pattern

    def _agree(self, agreement: Agreement) -> None:
        """Between nodes: every member says what it ran, and that its node may still act."""
        ints = self.slot.ints
        ints[SEALING] = 1
        try:
            chains = agreement.exchange(self.chain)
        except RuntimeError as error:
            self.fail(f"{type(error).__name__}: {str(error).splitlines()[0][:200]}")
            raise Interrupted(self.error) from None
        finally:
            ints[SEALING] = 0
        for rank, chain in chains.items():
            if chain != self.chain:
                self._disagree(chains, rank)
        if not self.page.may_act(lease_clock()):
            self.fail("the lease of this node is over")
            raise Interrupted(self.error)

    def _compare(self) -> None:
        number = self.slot.ints[ISSUED]
        # Up to where both have come: a peer that left something out, or gave up, may be behind.
        for rank, slot in self.peers:
            common = min(number, slot.ints[ISSUED])
            if common and slot.chain_at(common) != self.slot.chain_at(common):
                self._disagree(self._votes(common), rank)

    def _votes(self, number: int) -> dict[int, int | None]:
        """Each rank's fingerprint at a collective in which two of them differ.

        Whose is the odd one is told by the others, and these may be about to enter it: they are waited for
        until the vote is decided, but no longer than `SETTLED_S`, for they may never come to it.
        """
        until, pause_s = time.monotonic() + SETTLED_S, 0.00005
        while True:
            chains = {rank: slot.chain_at(number) for rank, slot in self.peers}
            chains[self.rank] = self.slot.chain_at(number)
            known = Counter(chain for chain in chains.values() if chain is not None)
            decided = known.total() == len(chains) or max(known.values(), default=0) * 2 > len(chains)
            if decided or time.monotonic() > until or self.page.open_generation != self.generation:
                return chains
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.002)

    def _wait_for_peers(self) -> None:
        pause_s = 0.00005
        for _, slot in self.peers:
            while slot.ints[SEALED_STEP] < self.step:
                if self.page.open_generation != self.generation:
                    self.fail("the generation has ended")
                    raise Interrupted(self.error)
                # Shared memory has no event to wait for; this happens in the first step of a
                # generation and where the sequence changes, and lasts as long as the ranks' skew.
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, 0.002)
        ended = {
            rank: slot.ints[SEALED_CHAIN] for rank, slot in self.peers if slot.ints[SEALED_STEP] == self.step
        }
        for rank, chain in ended.items():
            if chain != self.chain:
                self._disagree({**ended, self.rank: self.chain}, rank)
        self._compare()

    def _disagree(self, chains: Mapping[int, int | None], other: int) -> NoReturn:
        """This rank and `other` differ; the odd one out of all that have got that far is named."""
        suspect = odd_one_out(chains, other)
        who = "a rank" if suspect is None else f"rank {suspect}"
        self.fail(f"{who} ran another sequence of collectives in step {self.step}", "desync", suspect)
        raise Interrupted(self.error)

    # ------------------------------------------------------------------ call sites

    def _call_site(self) -> int:
        """A number for the user's line that issued the collective (the same in every process)."""
        frame: FrameType | None = sys._getframe(3)
        while frame is not None:
            key = (frame.f_code.co_filename, frame.f_lineno)
            number = self._sites.get(key)
            if number is None:
                number = self._sites[key] = _site_number(*key)
            if number:
                return number
            frame = frame.f_back
        return 0


def _site_number(filename: str, line: int) -> int:
    """0 for library code."""
    if filename.startswith("<frozen") or any(filename.startswith(f) for f in _LIBRARY_FOLDERS):
        return 0
    return zlib.crc32(f"{Path(filename).name}:{line}".encode()) | 1
