"""Looks at a device through NVML, repeated until it shows what is looked for or the time is up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from injectors.gpu.clocks import Sight
from injectors.gpu.nvml import Device

Seen = TypeVar("Seen")
PERIOD_S = 0.02


def sight_of(device: Device) -> Sight:
    """The graphics clock as it is now."""
    return Sight(device.clock_mhz(), device.max_clock_mhz(), device.clock_reasons())


def wait_seen(look: Callable[[], Seen], wanted: Callable[[Seen], bool], timeout_s: float) -> Seen:
    """Look until it is what is wanted; returns the last sight, wanted or not."""
    limit = time.monotonic() + timeout_s
    while True:
        seen = look()
        if wanted(seen) or time.monotonic() > limit:
            return seen
        # A device raises no event when a reading changes.
        time.sleep(PERIOD_S)
