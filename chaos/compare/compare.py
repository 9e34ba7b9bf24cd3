"""What has changed from some reports to others: verdicts, recovery times by phase, the time of a step. Pure.

Rules kept here:

- A time is slower only if three things hold: the ranks say so (`rank_test`), the typical ratio is past the
  stated threshold, and it is past it without the part that is too short to matter. A shared machine makes the
  first alone true every day.
- Only what both sides have is compared, scenario by scenario. What one side lacks is said, no more.
- Too few repeats to tell is an answer of its own, never "no change".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from chaos.compare.rank_test import RankTest, Stratum, fair_limit, rank_test
from chaos.compare.samples import STEP, TIMED, Samples, samples
from chaos.report.model import Report

ALL = "all scenarios"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """When a difference counts.

    Attributes:
        slower_than: typical ratio, after over before, above which a time is slower; its inverse is faster.
        alpha: how often at least one comparison may be called different although nothing has changed, 0 to 1.
        floor_s: shorter times count as this long when the ratio is taken: 2 ms instead of 1 ms is no news.
    """

    slower_than: float = 1.5
    alpha: float = 0.01
    floor_s: float = 0.01


class Change(StrEnum):
    """What became of one time."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "no change"
    UNKNOWN = "too few repeats"


@dataclass(frozen=True, kw_only=True)
class TimeChange:
    """One comparison: one kind of time in one scenario, or in all scenarios together.

    Attributes:
        count: how many values, before and after.
        median_s: their medians.
        ratio: the typical ratio of an after to a before of the same scenario: the median over all such pairs.
    """

    scenario: str
    timed: str
    count: tuple[int, int]
    median_s: tuple[float, float]
    ratio: float
    test: RankTest
    change: Change


@dataclass(frozen=True, kw_only=True)
class VerdictChange:
    """How often one scenario ended as it states: runs and verdicts, before and after."""

    scenario: str
    before: str
    after: str
    worse: bool


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All that was compared. `p_limit`: how small p had to be, for so many comparisons."""

    verdicts: tuple[VerdictChange, ...]
    times: tuple[TimeChange, ...]
    notes: tuple[str, ...]
    limits: Limits
    p_limit: float

    @property
    def slower(self) -> tuple[TimeChange, ...]:
        """Times that became longer past the threshold."""
        return tuple(one for one in self.times if one.change == Change.SLOWER)

    @property
    def worse(self) -> tuple[VerdictChange, ...]:
        """Scenarios that no longer end as they state."""
        return tuple(one for one in self.verdicts if one.worse)

    @property
    def regressed(self) -> bool:
        """Whether anything became worse."""
        return bool(self.slower or self.worse)

    @property
    def tells(self) -> bool:
        """Whether at least one time had enough repeats to be judged."""
        return any(one.change != Change.UNKNOWN for one in self.times)


def compare(before: Sequence[Report], after: Sequence[Report], limits: Limits | None = None) -> Comparison:
    """Hold the reports after against those before.

    Args:
        before: one report, or several that count as repeats of each other.
        after: likewise.
        limits: when a difference counts.
    """
    limits = limits or Limits()
    with_suite = len({report.suite for report in (*before, *after)}) > 1
    old, new = samples(before, with_suite=with_suite), samples(after, with_suite=with_suite)
    shared = [name for name in old.ended if name in new.ended]
    found = list(_measured(old, new, shared, limits.floor_s))
    p_limit = fair_limit([one.test.least_p for one in found], limits.alpha)
    verdicts = [_verdict_change(name, old.ended[name], new.ended[name], limits.alpha) for name in shared]
    times = tuple(_judged(one, limits, p_limit) for one in found)
    return Comparison(
        verdicts=tuple(verdicts),
        times=times,
        notes=(*_notes(before, after, old, new), *_load_notes(times)),
        limits=limits,
        p_limit=p_limit,
    )


@dataclass(frozen=True)
class _Measured:
    scenario: str
    timed: str
    strata: list[Stratum]
    ratio: float
    test: RankTest


def _measured(old: Samples, new: Samples, shared: Sequence[str], floor_s: float) -> Iterator[_Measured]:
    for timed in TIMED:
        strata = {name: (old.of(name, timed), new.of(name, timed)) for name in shared}
        usable = {name: both for name, both in strata.items() if all(both)}
        if len(usable) > 1:
            yield _measure(ALL, timed, list(usable.values()), floor_s)
        for name, both in usable.items():
            yield _measure(name, timed, [both], floor_s)


def _measure(scenario: str, timed: str, strata: list[Stratum], floor_s: float) -> _Measured:
    ratios = [max(b, floor_s) / max(a, floor_s) for before, after in strata for a in before for b in after]
    return _Measured(scenario, timed, strata, median(ratios), rank_test(strata))


def _judged(one: _Measured, limits: Limits, p_limit: float) -> TimeChange:
    before = [value for values, _ in one.strata for value in values]
    after = [value for _, values in one.strata for value in values]
    return TimeChange(
        scenario=one.scenario,
        timed=one.timed,
        count=(len(before), len(after)),
        median_s=(median(before), median(after)),
        ratio=one.ratio,
        test=one.test,
        change=_change(one, limits, p_limit),
    )


def _change(one: _Measured, limits: Limits, p_limit: float) -> Change:
    if one.test.p <= p_limit:
        if one.ratio > limits.slower_than and one.test.superiority > 0.5:
            return Change.SLOWER
        if one.ratio < 1 / limits.slower_than and one.test.superiority < 0.5:
            return Change.FASTER
        return Change.SAME
    return Change.UNKNOWN if one.test.least_p > p_limit else Change.SAME


def _verdict_change(
    name: str, old: Sequence[tuple[str, bool]], new: Sequence[tuple[str, bool]], alpha: float
) -> VerdictChange:
    """Worse: something new goes wrong where nothing did, or it goes wrong clearly more often."""
    wrong = [[float(not as_expected) for _, as_expected in runs] for runs in (old, new)]
    test = rank_test([(wrong[0], wrong[1])])
    first_time = not any(wrong[0]) and any(wrong[1])
    return VerdictChange(
        scenario=name,
        before=_runs(old),
        after=_runs(new),
        worse=first_time or (test.p <= alpha and test.superiority > 0.5),
    )


def _runs(ended: Sequence[tuple[str, bool]]) -> str:
    """``PASS``; of several runs ``9 PASS, 1 VIOLATED (unexpected)``."""
    counts = Counter(
        verdict if as_expected else f"{verdict} (unexpected)" for verdict, as_expected in sorted(ended)
    )
    return ", ".join(f"{count} {text}" if len(ended) > 1 else text for text, count in counts.items())


def _notes(before: Sequence[Report], after: Sequence[Report], old: Samples, new: Samples) -> Iterator[str]:
    """What a reader must know before believing the figures."""
    for what, missing in (
        ("only before", [name for name in old.ended if name not in new.ended]),
        ("only after", [name for name in new.ended if name not in old.ended]),
    ):
        if missing:
            yield f"{what}, not compared: {', '.join(missing)}"
    if {one.seed for one in before} != {one.seed for one in after}:
        yield "the seeds differ: faults may strike other ranks and steps"
    for key in ("cpu", "cpus", "kernel", "torch"):
        values = [sorted({str(one.environment.get(key)) for one in side}) for side in (before, after)]
        if values[0] != values[1]:
            yield f"{key} differs: {', '.join(values[0])} before, {', '.join(values[1])} after"
    loads = [_load(side) for side in (before, after)]
    if loads[0] is not None and loads[1] is not None and abs(loads[0] - loads[1]) > 0.5:
        yield f"the machine's load differs: {loads[0]:.1f} per processor before, {loads[1]:.1f} after"


def _load(reports: Sequence[Report]) -> float | None:
    """How many programs wanted each processor when the runs began, their mean; None where it is not told."""
    found = []
    for report in reports:
        load, cpus = report.environment.get("load_before"), report.environment.get("cpus")
        if isinstance(load, (int, float)) and isinstance(cpus, int) and cpus > 0:
            found.append(load / cpus)
    return sum(found) / len(found) if found else None


def _load_notes(times: Sequence[TimeChange]) -> Iterator[str]:
    """A change to one phase leaves the others alone; a busy machine spares nothing, least of all a step."""
    slower = {one.timed for one in times if one.change == Change.SLOWER}
    if STEP in slower and len(slower) > len(TIMED) // 2:
        yield "nearly everything is slower, an undisturbed step too: was the machine as idle as before?"
