"""Whose clock lock is it? Pure decisions from what NVML shows.

NVML can set a lock and lift it, but offers no way to read it back. What it shows is the clock that the device
runs at, and the reasons why that is not the highest one. A lock has no reason of its own: an idle device that
is locked stays at its lock and is not called idle. So a clock below the highest for which no reason is given
is a lock, and the value at which it stands says whose. Hidden are a lock at the highest clock, and a lock of
somebody else's that lies above a clock which heat, power or idleness hold down.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

# Bits of NVML's clocks event reasons.
IDLE, APPLICATION_SETTING, SYNC_BOOST = 0x1, 0x2, 0x10
TOLERANCE_MHZ = 15
"""One step of the clock; what is read may lie a step beside what was set."""


@dataclass(frozen=True)
class Sight:
    """What NVML shows of a device's graphics clock at one moment."""

    clock_mhz: int
    max_mhz: int
    reasons: int

    def as_dict(self) -> dict[str, int]:
        return {"clock_mhz": self.clock_mhz, "max_mhz": self.max_mhz, "reasons": self.reasons}

    def __str__(self) -> str:
        return f"{self.clock_mhz} of {self.max_mhz} MHz, reasons {self.reasons:#x}"


class Whose(Enum):
    """What is to be made of a sight when a lock of ours is to be lifted."""

    OURS = auto()
    """It runs at the value that we set."""
    SOMEBODY_ELSES = auto()
    """A lock shows, at another value: ours has been replaced."""
    NOBODYS = auto()
    """It runs above our value: no lock of ours is in force."""
    HIDDEN = auto()
    """It runs below our value for a reason that NVML names; ours may be in force, another's does not show."""


def is_locked(sight: Sight) -> bool:
    """Whether a lock shows: the clock is low, and nothing but a setting explains it."""
    if sight.reasons & APPLICATION_SETTING:
        return True
    return sight.clock_mhz + TOLERANCE_MHZ < sight.max_mhz and sight.reasons == 0


def holds(sight: Sight, set_mhz: int) -> bool:
    """Whether the clock stands at a value."""
    return abs(sight.clock_mhz - set_mhz) <= TOLERANCE_MHZ


def whose(sight: Sight, set_mhz: int) -> Whose:
    """Whose lock the device is under, if we set `set_mhz` earlier."""
    if holds(sight, set_mhz):
        return Whose.OURS
    if is_locked(sight):
        return Whose.SOMEBODY_ELSES
    return Whose.NOBODYS if sight.clock_mhz > set_mhz else Whose.HIDDEN


def choose(supported_mhz: list[int], max_mhz: int, share: float) -> int:
    """The clock to lock to: the highest supported one within `share` of the highest, else the lowest.

    Where the device lists none, the share itself: the driver takes the nearest.
    """
    wanted = int(max_mhz * share)
    below = [clock for clock in supported_mhz if clock <= wanted]
    return max(below) if below else min(supported_mhz, default=wanted)
