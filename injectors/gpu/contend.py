"""`gpu.contend`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from injectors.fault import parameter
from injectors.gpu.sharing import SharingFault

BURSTS = 5
"""Fewer, and the share of the time says little."""


@dataclass(frozen=True, kw_only=True)
class GpuContend(SharingFault):
    """Let another process compute on the victim's device for a share of the time: the victim gets the rest.

    Proof: NVML lists the process on the device, and its counters say how much of the time it computed.
    Undo: the process is killed, found by its token; it ends with the tool, and when its time is up, too.
    """

    id: ClassVar[str] = "gpu.contend"
    act: ClassVar[str] = "burn"
    stands_for: ClassVar[str] = (
        "a job left over or started by mistake on the same device, a neighbour on a shared one: a slow rank"
    )
    does_not_certify: ClassVar[str] = (
        "how much slower the victim became: the driver shares the time in slices (compare the steps' times)"
    )

    share: float = parameter("of the time that it computes, its duty", default=0.5, minimum=0.05, maximum=1.0)

    def settled(self, said: dict[str, Any]) -> bool:
        return bool(said["bursts"] >= BURSTS)

    def judge(self, said: dict[str, Any], seen: dict[str, Any], before: Any) -> tuple[str, bool]:
        what = f"{said['bursts']} bursts, duty {said['duty']:.2f}, wanted {self.share:.2f}"
        return what, said["bursts"] >= BURSTS and said["duty"] >= 0.5 * self.share
