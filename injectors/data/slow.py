"""`data.slow`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from injectors.collective.holding import HoldingFault, verify_held
from injectors.fault import Evidence, Victim, parameter


@dataclass(frozen=True, kw_only=True)
class DataSlow(HoldingFault):
    """Hand one batch of a torch DataLoader to one rank late by a set time.

    Proof: the kernel sees the thread that asked for the batch blocked on the agent's line.
    Undo: the agent lets go when told; it ends by itself after `duration_s`, and when the tool is gone.
    """

    id: ClassVar[str] = "data.slow"
    stands_for: ClassVar[str] = (
        "a slow disk or object store under one rank, a decoder that chokes on one sample, a cold cache"
    )
    does_not_certify: ClassVar[str] = (
        "input that does not come from a torch DataLoader, nor a loader that never answers again"
    )

    duration_s: float = parameter("how late", default=0.5, unit="s", minimum=0.001, maximum=3600.0)

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        return verify_held(victim, fired)
