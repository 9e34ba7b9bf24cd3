"""`collective.hang`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from injectors.collective.holding import HoldingFault, verify_held
from injectors.fault import Evidence, Victim, duration, parameter


@dataclass(frozen=True, kw_only=True)
class CollectiveHang(HoldingFault):
    """Keep one rank from arriving at a collective that the others wait in; it is alive and answers signals.

    mode host: the thread waits before it issues the collective. mode device: a kernel that does not return
    is launched before it in the same stream. mode auto: device where the process works with CUDA.
    Proof: the kernel sees the thread blocked on the agent's line (host); the stream is busy (device).
    Undo: the agent lets go when told, when the time is up, and when the tool is gone; the rank then arrives.
    """

    id: ClassVar[str] = "collective.hang"
    stands_for: ClassVar[str] = (
        "a rank stuck in user code, in a lock, in a data loader, or in a kernel that spins"
    )
    does_not_certify: ClassVar[str] = (
        "a hang inside the transport while data flows (net.*), nor a stopped process (process.stop)"
    )
    expects: ClassVar[str | None] = "hang"

    duration_s: float | None = duration("how long it does not arrive; without it, until the scenario heals")
    mode: str = parameter("where it hangs", kind="str", default="auto", choices=("auto", "host", "device"))

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        return verify_held(victim, fired)
