"""A worker's counters as they travel from its node to the coordinator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recovery.core.blame import Progress

if TYPE_CHECKING:
    from chaos.simulation.worker import Worker


@dataclass(slots=True)
class Sample:
    """Times travel as ages, so the way there makes them younger."""

    heard: float
    """When the coordinator heard of it."""
    proc: int
    generation: int
    version: int
    warm: bool
    issued: int
    done: int
    sealing: bool
    issued_s: float
    changed_s: float
    busy_s: float
    step_s: float
    chain: list[int]
    """Only grows, and is another list in the next generation."""

    @classmethod
    def of(cls, worker: Worker) -> Sample:
        """The counters as they stand on the node's page now."""
        now = worker.world.now
        return cls(
            heard=now,
            proc=worker.proc,
            generation=worker.counted_generation,
            version=worker.machine.version or 0,
            warm=worker.commits > 1,
            issued=worker.issued,
            done=worker.done,
            sealing=worker.sealing,
            issued_s=now - worker.issued_at,
            changed_s=now - worker.changed_at,
            busy_s=worker.busy_until - now,
            step_s=worker.step_s,
            chain=worker.chain,
        )

    def progress(self, rank: int, common: int) -> Progress:
        """As the coordinator reads it; `common` collectives have been entered by every member."""
        return Progress(
            rank=rank,
            proc=self.proc,
            generation=self.generation,
            version=self.version,
            warm=self.warm,
            issued=self.issued,
            done=self.done,
            issued_at=self.heard - self.issued_s,
            changed_at=self.heard - self.changed_s,
            busy_until=self.heard + self.busy_s,
            starved_s=0.0,
            common_chain=self.chain[common - 1] if common else 0,
            sealing=self.sealing,
        )
