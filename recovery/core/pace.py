"""How long a step takes: what a late rank is measured by.

One step says little. All that take part in it wait for its slowest, so after a hang that ended by itself its
time is the hang's, and the next one would be found that many times later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

STEPS = 5
"""Steps that are looked back on: two slow ones among them change nothing, three are the new pace."""


class StepTimes:
    """The last steps of one process."""

    def __init__(self) -> None:
        self._last: deque[float] = deque(maxlen=STEPS)

    def add(self, step_s: float) -> float:
        """One more step was committed; returns the pace now, in seconds. With few steps the faster half
        decides: the first ones compile and warm up.
        """
        self._last.append(step_s)
        return sorted(self._last)[(len(self._last) - 1) // 2]


def pace_of(paces: Iterable[float]) -> float | None:
    """The pace of the job, from those of its warm ranks; None while there is none."""
    ordered = sorted(paces)
    return ordered[len(ordered) // 2] if ordered else None
