"""`collective.delay`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from injectors.collective.holding import HoldingFault
from injectors.fault import parameter


@dataclass(frozen=True, kw_only=True)
class CollectiveDelay(HoldingFault):
    """Let one rank arrive late at one collective.

    Proof: the agent measures how long it waited, and reports it when the wait is over.
    Undo: the agent lets go when told; it ends by itself after `duration_s`.
    """

    id: ClassVar[str] = "collective.delay"
    stands_for: ClassVar[str] = (
        "a straggler: a slow batch, a garbage collection, another tenant on the processor"
    )
    does_not_certify: ClassVar[str] = "slow links: data that has been sent is not slowed (see net.delay)"

    duration_s: float = parameter("how late", default=0.1, unit="s", minimum=0.001, maximum=3600.0)
