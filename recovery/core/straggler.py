"""Who holds the others up: named for the record, and left alone.

A look at the progress counters shows who has not arrived at the collective that all others wait in. Once is
chance; the same rank at several collectives, each time by more than a step takes, is a straggler. Whether it
lacks a processor or works slowly makes no difference to those who wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from recovery.core.blame import Progress

LATE_S = 0.05
"""Less is ordinary skew: healthy ranks differ by some milliseconds, and by more only beside other load."""
ARRIVALS = 3
"""Late arrivals that make a straggler."""
WINDOW_S = 10.0
"""They count together within this time; a bout is over when none has come for as long."""


@dataclass(frozen=True, slots=True)
class Straggler:
    """One rank's bout so far. `late_s` adds up how late it was seen at each of its `arrivals`."""

    rank: int
    generation: int
    version: int
    arrivals: int
    late_s: float


@dataclass(slots=True)
class _Bout:
    last: float = 0.0
    late: dict[tuple[int, int], float] = field(default_factory=dict)
    """(generation, collective) -> how late it was seen there at most."""
    told: int = 0


class Stragglers:
    """Fed with every look; says who is to be named."""

    def __init__(self) -> None:
        self._bouts: dict[int, _Bout] = {}
        self._best_step_s = float("inf")

    def look(self, members: Sequence[Progress], step_s: float | None, now: float) -> Straggler | None:
        """The straggler to be named now: at its third late arrival, and then each time these have doubled."""
        if step_s is not None:
            # A straggler slows everyone's step: what a step takes without one is the shortest that was seen.
            self._best_step_s = min(self._best_step_s, step_s)
        if len(members) < 2 or not all(member.warm for member in members):
            return None
        furthest = max(member.issued for member in members)
        behind = [member for member in members if member.issued < furthest]
        if len(behind) != 1:
            return None
        (late,) = behind
        # From when the last of the others had arrived; being busy is no straggling.
        waiting_since = max(member.issued_at for member in members if member is not late)
        late_s = now - waiting_since
        if late_s < max(LATE_S, min(self._best_step_s, 1.0)) or now <= late.busy_until:
            return None
        return self._count(late, late_s, now)

    def _count(self, late: Progress, late_s: float, now: float) -> Straggler | None:
        bout = self._bouts.get(late.rank)
        if bout is None or now - bout.last > WINDOW_S:
            bout = self._bouts[late.rank] = _Bout()
        bout.last = now
        bout.late[late.generation, late.issued] = late_s
        arrivals = len(bout.late)
        if arrivals < max(ARRIVALS, 2 * bout.told):
            return None
        bout.told = arrivals
        total_s = sum(bout.late.values())
        return Straggler(late.rank, late.generation, late.version, arrivals, total_s)
