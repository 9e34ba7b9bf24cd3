"""How far a run of several scenarios has come, and how long the rest will take. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Course:
    """The scenarios of a run.

    Args:
        steps: how many steps each scenario has, in order; None where that is unknown.
    """

    steps: Sequence[int | None]
    took_s: list[float] = field(default_factory=list)

    @property
    def total(self) -> int:
        """How many scenarios there are."""
        return len(self.steps)

    def left_s(self, running_s: float) -> float | None:
        """Seconds until the last scenario is over, by what those before took; None before the first is.

        Args:
            running_s: how long the present one has been running.
        """
        done = len(self.took_s)
        if not done:
            return None
        counts = [count for count in self.steps if count]
        if len(counts) == len(self.steps):
            pace_s = sum(self.took_s) / sum(counts[:done])
            expected = [pace_s * count for count in counts[done:]]
        else:
            expected = [sum(self.took_s) / done] * (len(self.steps) - done)
        if not expected:
            return 0.0
        return max(0.0, expected[0] - running_s) + sum(expected[1:])


def about(left_s: float | None) -> str:
    """The time that is left, for people; nothing if it is not known."""
    if left_s is None:
        return ""
    if left_s >= 90:
        return f"about {left_s / 60:.0f} min left"
    return f"about {max(1, round(left_s))} s left"
