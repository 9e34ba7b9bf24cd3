"""The moments that a suite's entries name, without their steps. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from chaos.fuzz.space import Moment
from chaos.plan import canonical
from chaos.suite.model import RECOVERY_PHASES, STEP_PHASES, FaultEntry, When

DURING_S = 0.2
"""Where a suite has a fault follow another at once, this long after it counts as following, too."""
BY_THEMSELVES = ("step.", "job.", "busy.", "worker.start")
"""Events that come without a loss."""


def moments_of(entries: Iterable[FaultEntry], phases: Iterable[str]) -> dict[str, tuple[Moment, ...]]:
    """By phase, the ways to be in it: those that the entries name, and further phases."""
    found: dict[str, dict[str, Moment]] = {}
    named = [moment for entry in entries for moment in moments_in(entry)]
    for moment in [*named, *(_in_phase(phase) for phase in phases)]:
        known = found.setdefault(moment.phase, {})
        known.setdefault(canonical([dict(moment.when), moment.stepped, moment.follows]), moment)
    moments = {phase: tuple(known.values()) for phase, known in found.items()}
    if "time" in moments:
        moments["time"] = _merged(moments["time"])
    return moments


def moments_in(entry: FaultEntry) -> Iterator[Moment]:
    """The moments of one entry; a random phase is several."""
    when = entry.when
    if when.after_fault is not None:
        yield Moment({"after_s": _range(when)}, stepped=False, follows=True, after_loss=True)
    elif when.after_s is not None:
        yield Moment({"after_s": _range(when)}, stepped=False)
    elif when.event is not None:
        after_loss = not when.event.startswith(BY_THEMSELVES)
        yield Moment({"event": when.event}, when.step is not None, after_loss=after_loss)
    elif when.collective is not None:
        collective = when.collective.model_dump(exclude_none=True)
        yield Moment({"collective": collective}, when.step is not None)
    elif when.phase is not None:
        for phase in STEP_PHASES if when.phase == "random" else (when.phase,):
            yield _in_phase(phase)
    else:
        yield Moment({})


def named_steps(entries: Iterable[FaultEntry]) -> list[int]:
    """Every step that an entry names; of a range both ends."""
    found: list[int] = []
    for entry in entries:
        step: Any = entry.when.step
        if step is not None:
            found += step if isinstance(step, list) else [step]
    return found


def _in_phase(phase: str) -> Moment:
    if phase in RECOVERY_PHASES:
        return Moment({"event": f"recovery.{phase}"}, stepped=False, after_loss=True)
    return Moment({"phase": phase})


def _range(when: When) -> list[float]:
    low, high = when.after_s if isinstance(when.after_s, list) else (when.after_s, when.after_s)
    return [float(low), float(high)]


def _merged(moments: Sequence[Moment]) -> tuple[Moment, ...]:
    """One range for the times that count from the job's first step, one for those from another fault."""
    merged = []
    for follows in (False, True):
        ranges: list[Mapping[int, float]] = [m.when["after_s"] for m in moments if m.follows is follows]
        if ranges:
            low, high = min(each[0] for each in ranges), max(each[1] for each in ranges)
            high = max(high, low + DURING_S) if follows else high
            merged.append(Moment({"after_s": [low, high]}, False, follows, after_loss=follows))
    return tuple(merged)
