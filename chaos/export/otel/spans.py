"""A run's scenarios as traces: the lanes of a history, told as spans. Pure.

Rules kept here:

- A scenario is a trace and its root span; faults and recoveries are its children, phases those of a recovery.
- The same report gives the same ids, so what is sent twice is the same spans twice.
- A history knows a monotonic clock alone. Its `scenario.start` says what the time of day was; where it is too
  old to say so, the run's own start is taken for that of its first event, and every root span tells.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from chaos.export.otel.telemetry import Attributes, Moment, Span, attributes, clean
from chaos.history import History
from chaos.records import FaultTrail, float_of, time_of
from chaos.report.lanes import Lanes, Step, Strike, lanes_of, recovery_starts
from chaos.report.model import FaultReport, RecoveryReport, ScenarioReport
from chaos.report.stored import Line, Stored, unanswered

ROOT = ""
"""The key of a trace's root; those of the others are fault ids and `recovery N`."""
STAGES = ("reached", "fired", "verified", "undone", "undo_verified")


def spans_of(stored: Stored, started_s: float) -> Iterator[Span]:
    """The spans of every scenario whose history was kept.

    Args:
        started_s: when the run began, seconds since the Unix epoch.
    """
    kept = {
        scenario.name: lines
        for scenario in stored.report.scenarios
        if (lines := stored.scenarios[scenario.name].lines)
    }
    first = min((time_of(lines[0].event) for lines in kept.values()), default=0.0)
    for scenario in stored.report.scenarios:
        if scenario.name in kept:
            yield from _Told(
                stored.report.plan_hash, scenario, kept[scenario.name], started_s - first
            ).spans()


@dataclass(frozen=True)
class _Told:
    """One scenario. `beside_s`: what to add to a monotonic time where the history itself does not say."""

    plan_hash: str
    scenario: ScenarioReport
    lines: tuple[Line, ...]
    beside_s: float

    @cached_property
    def history(self) -> History:
        return History(line.event for line in self.lines)

    @cached_property
    def lanes(self) -> Lanes:
        return lanes_of(self.lines, unanswered(self.scenario))

    @cached_property
    def origin_s(self) -> float:
        """Monotonic time of the first event."""
        return time_of(self.history.events[0])

    @cached_property
    def said_s(self) -> float | None:
        """What its own history says is to be added to a monotonic time."""
        for event in self.history.of("scenario.start"):
            unix_s = float_of(event, "unix_s")
            if unix_s is not None:
                return unix_s - time_of(event)
        return None

    @cached_property
    def start_ns(self) -> int:
        beside_s = self.beside_s if self.said_s is None else self.said_s
        return round((self.origin_s + beside_s) * 1e9)

    def at_ns(self, since_start_s: float) -> int:
        # Two parts: a float that holds today's date has no nanoseconds left.
        return self.start_ns + round(since_start_s * 1e9)

    def id_of(self, key: str, size: int) -> int:
        """An id of `size` bytes for a part of this run of this scenario; never 0, which means none."""
        name = f"{self.plan_hash}/{self.scenario.name}/{self.start_ns}/{key}"
        return int.from_bytes(hashlib.sha256(name.encode("utf-8", "replace")).digest()[:size]) or 1

    def spans(self) -> Iterator[Span]:
        yield self._root()
        reports = {fault.id: fault for fault in self.scenario.faults}
        for strike in self.lanes.strikes:
            yield self._fault(strike, self.history.faults[strike.fault], reports.get(strike.fault))
        found = recovery_starts(self.history, unanswered(self.scenario))
        for number, (start, phases) in enumerate(found):
            told = self.scenario.recoveries[number] if number < len(self.scenario.recoveries) else None
            yield from self._recovery(number, start - self.origin_s, phases, told)

    def _span(self, key: str, parent: str | None, name: str, times_s: tuple[float, float]) -> Span:
        """A span that tells nothing yet. `times_s`: start and end, since the scenario's start."""
        return Span(
            trace_id=self.id_of("trace", 16),
            span_id=self.id_of(key, 8),
            parent_id=None if parent is None else self.id_of(parent, 8),
            name=clean(name),
            start_ns=self.at_ns(times_s[0]),
            end_ns=self.at_ns(times_s[1]),
        )

    def _root(self) -> Span:
        scenario = self.scenario
        clock = "the run's start" if self.said_s is None else "the history"
        told = attributes(
            "scenario",
            name=scenario.name,
            verdict=scenario.verdict,
            expected=scenario.expected,
            as_expected=scenario.as_expected,
            reason=scenario.reason or None,
            seed=scenario.seed,
            replay=scenario.replay,
            violated=[found.name for found in scenario.invariants if found.verdict == "VIOLATED"] or None,
            time_from=clock,
        )
        root = self._span(ROOT, None, f"scenario {scenario.name}", (0.0, self.lanes.end_s))
        wrong = "" if scenario.as_expected else clean(f"{scenario.verdict}: {scenario.reason}")
        return replace(root, attributes=told, moments=tuple(self._commits()), error=wrong)

    def _commits(self) -> Iterator[Moment]:
        """Each step when the job first committed it: by whichever rank was first."""
        for step in first_commits(self.lanes.steps):
            yield Moment(
                "torch_chaos.step.commit", self.at_ns(step.end_s), attributes("step", number=step.step)
            )

    def _fault(self, strike: Strike, trail: FaultTrail, report: FaultReport | None) -> Span:
        told = attributes(
            "fault",
            id=strike.fault,
            name=strike.name,
            lanes=strike.lanes,
            rank=trail.rank,
            step=trail.step,
            phase=trail.phase,
            generation=trail.generation,
            end_known=strike.end_s is not None,
            failed=trail.failed,
        )
        if report is not None:
            told |= attributes(
                "fault",
                verified=report.verified,
                undone=report.undone,
                undo_verified=report.undo_verified,
                recover_s=report.recover_s,
            )
        stages = ((stage, getattr(trail, f"{stage}_t")) for stage in STAGES)
        moments = tuple(
            Moment(f"torch_chaos.fault.{stage}", self.at_ns(at - self.origin_s))
            for stage, at in stages
            if at is not None
        )
        end_s = strike.start_s if strike.end_s is None else max(strike.start_s, strike.end_s)
        span = self._span(strike.fault, ROOT, f"fault {strike.name}", (strike.start_s, end_s))
        return replace(span, attributes=told, moments=moments)

    def _recovery(
        self, number: int, start_s: float, phases: Mapping[str, float], report: RecoveryReport | None
    ) -> Iterator[Span]:
        key, end_s = f"recovery {number}", start_s + sum(phases.values())
        whole = self._span(key, ROOT, "recovery", (start_s, end_s))
        struck = {strike.fault for strike in self.lanes.strikes}
        answered = [fault for fault in report.faults if fault in struck] if report is not None else []
        links = tuple(self.id_of(fault, 8) for fault in answered)
        told = {**attributes("recovery", number=number), **_reported(report)}
        yield replace(whole, attributes=told, links=links)
        at = start_s
        for phase, lasted in phases.items():
            if lasted > 0:
                inner = self._span(f"{key} {phase}", key, f"recovery.{phase}", (at, at + lasted))
                yield replace(inner, attributes=attributes("recovery", number=number, phase=phase))
            at += lasted


def _reported(report: RecoveryReport | None) -> Attributes:
    if report is None:
        return {}
    return attributes(
        "recovery",
        cause=report.cause or None,
        rank=report.rank,
        generation=report.generation,
        faults=report.faults,
        bytes=report.bytes,
        total_s=report.total_s,
        measured_s=report.measured_s,
        derived=report.derived,
    )


def first_commits(steps: Iterable[Step]) -> Iterator[Step]:
    """The commits that took the job to a step it had not committed before, oldest first."""
    highest = -1
    for step in sorted(steps, key=lambda step: step.end_s):
        if step.outcome == "commit" and step.step > highest:
            highest = step.step
            yield step
