"""`gpu.stuck_kernel`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from injectors.collective.holding import HoldingFault
from injectors.fault import Evidence, FaultError, Mechanism, Victim, parameter
from injectors.gpu import cuda, nvml
from injectors.gpu.looking import wait_seen
from injectors.gpu.owning import device_of
from injectors.gpu.setting import label

BUSY_PERCENT = 90
SEEN_S = 2.5
"""NVML averages over up to a second."""


@dataclass(frozen=True, kw_only=True)
class GpuStuckKernel(HoldingFault):
    """Occupy the victim's current stream with a kernel that spins: the host goes on, the device does not.

    Proof: the victim's stream is busy, and where NVML lists the victim, it reads the device as busy too.
    Undo: the kernel is told to return, when the tool says so, when it is gone and when the time is up. Where
    torch can not compile a kernel, its sleep stands in, of the same length, which nothing can end early.
    """

    id: ClassVar[str] = "gpu.stuck_kernel"
    mechanisms: ClassVar[tuple[Mechanism, ...]] = cuda.INSIDE
    needs: ClassVar[tuple[str, ...]] = ("gpu",)
    stands_for: ClassVar[str] = (
        "a kernel that never returns: a bug in a custom kernel, a lost flag in a device-side "
        "barrier, a driver hang"
    )
    does_not_certify: ClassVar[str] = (
        "a driver that hangs too: here the context answers, and the process can be killed"
    )
    expects: ClassVar[str | None] = "hang"

    duration_s: float = parameter(
        "how long it spins at most", default=10.0, unit="s", minimum=0.001, maximum=600.0
    )

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        if fired is None or not fired.proven:
            return fired or Evidence("the agent reported nothing", False, "agent")
        try:
            with nvml.session() as session:
                device = device_of(session, victim, "")
                busy = wait_seen(
                    device.utilization_percent,
                    lambda percent: percent >= BUSY_PERCENT,
                    min(SEEN_S, self.duration_s),
                )
                what = f"{label(session)}{device} is busy {busy} % of the time; {fired.what}"
        except FaultError as error:
            # What the victim's own CUDA says of its stream is then the only sight of it.
            return Evidence(f"{fired.what}; NVML does not show it: {error}", True, "agent", fired.data)
        return Evidence(what, busy >= BUSY_PERCENT, data={**fired.data, "utilization_percent": busy})
