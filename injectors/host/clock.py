"""`host.clock`."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import ClassVar

from injectors.fault import Channel, Evidence, FaultError, Victim, duration, parameter
from injectors.lasting import LastingFault

# How far the measured drift may be from the wanted one, as a part of it.
DRIFT_TOLERANCE = 0.2


@dataclass(frozen=True, kw_only=True)
class HostClock(LastingFault):
    """Set the wall clock of one rank wrong, or let it drift; every other process keeps the right time.

    All ways in which Python tells the time of day are replaced in the victim: time.time, time_ns,
    clock_gettime, localtime, gmtime, ctime, asctime, strftime and datetime.now, utcnow, today, also where
    they were imported by name. Monotonic clocks stay right, as on a host whose clock is set.
    Proof: what the victim's time.time() says lies between the engine's own clock before and after, plus the
    offset; a drift is measured against the monotonic clock.
    Undo: everything is put back, at the engine's word, at the end of its time or when the tool is gone.
    """

    id: ClassVar[str] = "host.clock"
    stands_for: ClassVar[str] = (
        "a host whose clock was set or drifts: time-outs, leases and file names by wall clock go wrong"
    )
    does_not_certify: ClassVar[str] = (
        "C and C++ code, file times and children of the victim, which see the host's clock; so do functions "
        "that hold an earlier reference in a default argument or a closure"
    )
    expects: ClassVar[str | None] = None

    offset_s: float = parameter("how far ahead it is", default=3600.0, unit="s", minimum=-1e9, maximum=1e9)
    drift: float = parameter("seconds gained a second", default=0.0, minimum=-1.0, maximum=1000.0)
    duration_s: float | None = duration("how long it is wrong", default=10.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.offset_s == 0.0 and self.drift == 0.0:
            raise FaultError(f"{self.id}: a clock that is 0 s off is right\n  mend: an offset_s or a drift")

    def inject(self, victim: Victim, channel: Channel | None) -> Evidence:
        before = time.time()
        fired = super().inject(victim, channel)
        return replace(fired, data={**fired.data, "engine_s": [before, time.time()]})

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        if fired is None or not fired.proven or "wall_s" not in fired.data:
            return Evidence("the agent reported nothing", False, "agent")
        before, after = fired.data["engine_s"]
        ahead = float(fired.data["wall_s"]) - self.offset_s
        gained = abs(self.drift) * (after - before)
        fits = before - gained <= ahead <= after + gained
        drift = float(fired.data["drift"])
        drifts = abs(drift - self.drift) <= DRIFT_TOLERANCE * abs(self.drift)
        what = f"the victim's clock is {float(fired.data['wall_s']) - after:+.3f} s off the engine's"
        data = {"ahead_s": float(fired.data["wall_s"]) - after, "drift": drift}
        return Evidence(what, fits and drifts, "kernel", data)
