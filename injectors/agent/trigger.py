"""When a fault is due: pure matching of a trigger against one point that the victim passed.

A point is one of four kinds. A *phase* point is the entry into a phase of a step, a *collective* point
is a collective about to be issued, an *event* point is an event of the recovery, a *batch* point is a batch
that a data loader is about to hand out. A trigger that names an event or a collective matches only points of
that kind, and so does that of a fault of batches; any other trigger matches phase points.
Standard library only: this file runs inside the victim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

PHASES = ("data", "forward", "backward", "bucket", "optimizer", "commit", "idle", "eval")
OPS = (
    "all_reduce",
    "broadcast",
    "all_gather",
    "reduce",
    "reduce_scatter",
    "all_to_all",
    "gather",
    "scatter",
    "barrier",
    "send",
    "recv",
)
# Where a trigger names a step alone. A gradient exists, whole and averaged, just before the optimizer uses
# it; an error of the training code is raised while a step is computed, not after it was counted.
DEFAULT_PHASE = {
    "numeric.bitflip": "optimizer",
    "numeric.nan": "optimizer",
    "numeric.scale": "optimizer",
    "process.exception": "forward",
    "process.oom": "forward",
}
# Carried out where a data loader hands a batch to the training code.
OF_BATCH = ("data.slow", "data.bad_batch")
KEYS = ("step", "phase", "collective", "event", "after_s", "occurrence")


@dataclass(frozen=True)
class Point:
    """Where a process is at one moment."""

    kind: str
    """phase | collective | event | batch."""
    step: int | None = None
    phase: str = "idle"
    op: str = ""
    groups: tuple[str, ...] = ()
    """Name and description of the process group."""
    event: str = ""
    elapsed_s: float = 0.0
    """Seconds since the target was started, as far as the agent knows."""
    fields: Mapping[str, Any] = field(default_factory=dict)


def with_elapsed(point: Point, elapsed_s: float) -> Point:
    """The same point with the time at which it was passed."""
    return replace(point, elapsed_s=elapsed_s)


def check(when: Mapping[str, Any]) -> None:
    """Refuse a trigger that could never come.

    Raises:
        ValueError: the value received and the values allowed.
    """
    unknown = set(when) - set(KEYS)
    if unknown or not when:
        raise ValueError(f"when: unknown {sorted(unknown)}\n  mend: some of {', '.join(KEYS)}")
    phase = when.get("phase")
    if phase is not None and phase not in PHASES:
        raise ValueError(f"when: phase {phase!r} is not known\n  mend: one of {', '.join(PHASES)}")
    for key, least in (("step", 0), ("occurrence", 1)):
        value = when.get(key)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
            raise ValueError(f"when: {key} {value!r} must be a whole number from {least} on")
    collective = when.get("collective")
    if collective is not None:
        _check_collective(collective)
        if when.get("event") is not None:
            raise ValueError("when: collective and event exclude each other")


def _check_collective(collective: Mapping[str, Any]) -> None:
    unknown = set(collective) - {"nth", "op", "group"}
    if unknown:
        raise ValueError(f"when: collective: unknown {sorted(unknown)}\n  mend: nth, op, group")
    if collective.get("op") is not None and collective["op"] not in OPS:
        raise ValueError(f"when: op {collective['op']!r} is not known\n  mend: one of {', '.join(OPS)}")
    nth = collective.get("nth")
    if nth is not None and (not isinstance(nth, int) or nth < 1):
        raise ValueError(f"when: nth {nth!r} must be a whole number from 1 on")


class Armed:
    """One fault waiting for its point in one process; counts what it has let pass."""

    def __init__(self, fault: Mapping[str, Any]) -> None:
        self.fault = fault
        self.id = str(fault["id"])
        self.name = str(fault["name"])
        self.params: Mapping[str, Any] = fault.get("params") or {}
        self.of_call = self.name.startswith("collective.") or self.name in OF_BATCH
        """Whether the caller at the point carries it out, on the call that it was about to make."""
        when: Mapping[str, Any] = fault["when"]
        self.step: int | None = when.get("step")
        self.phase: str | None = when.get("phase")
        self.event: str | None = when.get("event")
        self.after_s: float = float(when.get("after_s") or 0.0)
        self.occurrence = int(when.get("occurrence") or 1)
        collective = when.get("collective")
        if collective is None and self.name.startswith("collective."):
            collective = {}
        self.collective: Mapping[str, Any] | None = collective
        if self.phase is None and self.event is None and collective is None:
            self.phase = DEFAULT_PHASE.get(self.name)
        self._seen = 0
        self._in_step = 0

    def at(self, point: Point) -> bool:
        """Whether the fault is due at this point. Counts, so call it once a point."""
        if not self._matches(point):
            return False
        self._seen += 1
        return self._seen == self.occurrence

    def begin_step(self) -> None:
        """Count the collectives of a step anew; a step that is replayed begins again."""
        self._in_step = 0

    def rewind(self) -> None:
        """Match again: the engine said that this was not yet the right process."""
        self._seen = self.occurrence - 1

    def _matches(self, point: Point) -> bool:
        if self.step is not None and point.step != self.step:
            return False
        if point.elapsed_s < self.after_s:
            return False
        if self.event is not None:
            return point.kind == "event" and point.event == self.event
        if self.name in OF_BATCH:
            return point.kind == "batch" and self._phase_fits(point)
        if self.collective is not None:
            return point.kind == "collective" and self._phase_fits(point) and self._nth_fits(point)
        return point.kind == "phase" and self._phase_fits(point)

    def _phase_fits(self, point: Point) -> bool:
        if self.phase is None or self.phase == point.phase:
            return True
        # A bucket's all_reduce is issued while backward runs, so it is in both phases.
        return self.phase == "backward" and point.phase == "bucket" and point.kind == "collective"

    def _nth_fits(self, point: Point) -> bool:
        wanted = self.collective or {}
        if wanted.get("op") not in (None, point.op) or wanted.get("group") not in (None, *point.groups):
            return False
        self._in_step += 1
        nth = wanted.get("nth")
        return nth is None or self._in_step == nth
