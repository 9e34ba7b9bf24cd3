"""``trace.json``: the lanes of a run in the Trace Event Format, for Perfetto and Chrome's viewer. Pure.

Rules kept here:

- One process for each scenario, one thread for each lane; all scenarios begin at 0.
- What may overlap, faults and recoveries, is asynchronous (``b`` and ``e``): complete events of one thread
  have to nest.
- Times are whole microseconds, as the format wants them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from chaos.records import time_of
from chaos.report.lanes import JOB, Lanes, Span, Strike, lanes_of
from chaos.report.loss import losses
from chaos.report.stored import Scenario, Stored, unanswered

Event = dict[str, Any]


def trace(stored: Stored) -> dict[str, object]:
    """The content of trace.json. Scenarios whose history was not kept are left out."""
    events: list[Event] = []
    for number, scenario in enumerate(stored.report.scenarios, start=1):
        found = stored.scenarios[scenario.name]
        if found.lines is not None:
            title = f"{scenario.name}: {scenario.verdict}"
            events += _scenario(number, title, lanes_of(found.lines, unanswered(scenario)), found)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "suite": stored.report.suite,
            "seed": str(stored.report.seed),
            "plan": stored.report.plan_hash,
            "replay": stored.report.replay,
        },
    }


def microseconds(seconds: float) -> int:
    """The format's unit."""
    return round(seconds * 1e6)


def _scenario(pid: int, title: str, lanes: Lanes, scenario: Scenario) -> Iterator[Event]:
    threads = {lane: number for number, lane in enumerate(lanes.names)}
    yield _meta("process_name", pid, 0, name=title)
    yield _meta("process_sort_index", pid, 0, sort_index=pid)
    for lane, tid in threads.items():
        yield _meta("thread_name", pid, tid, name=lane)
        yield _meta("thread_sort_index", pid, tid, sort_index=tid)
    for lane, tid in threads.items():
        for start, end, name, category, args in _nested(_complete(lanes, lane)):
            yield {
                "ph": "X",
                "name": name,
                "cat": category,
                "pid": pid,
                "tid": tid,
                "ts": start,
                "dur": end - start,
                "args": args,
            }
    for span in lanes.spans:
        if span.lane == JOB:
            yield from _recovery(pid, span)
    for strike in lanes.strikes:
        yield from _fault(pid, strike, [threads[lane] for lane in strike.lanes])
    for mark in lanes.marks:
        yield _instant(pid, threads[mark.lane], mark.title, mark.kind, mark.at_s, {"line": mark.line})
    yield from _loss(pid, scenario)


Complete = tuple[int, int, str, str, dict[str, object]]


def _complete(lanes: Lanes, lane: str) -> Iterator[Complete]:
    for span in lanes.spans:
        if span.lane == lane and lane != JOB:
            yield microseconds(span.start_s), microseconds(span.end_s), span.title, span.kind, {}
    for step in lanes.steps:
        if step.lane == lane:
            end = microseconds(step.end_s)
            start = end if step.start_s is None else microseconds(step.start_s)
            told: dict[str, object] = {"step": step.step, "outcome": step.outcome}
            yield start, end, f"step {step.step}", step.outcome, told


def _nested(events: Iterable[Complete]) -> Iterator[Complete]:
    """In order of time, none reaching past the one that it began in: a late report of an end is cut."""
    open_until: list[int] = []
    for start, end, *rest in sorted(events, key=lambda event: (event[0], -event[1])):
        while open_until and open_until[-1] <= start:
            open_until.pop()
        end = min(end, *open_until) if open_until else end
        open_until.append(end)
        yield (start, end, *rest)  # type: ignore[misc]  # the rest of a Complete


def _meta(kind: str, pid: int, tid: int, **args: object) -> Event:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}


def _instant(pid: int, tid: int, name: str, category: str, at_s: float, args: dict[str, object]) -> Event:
    place = {"pid": pid, "tid": tid, "ts": microseconds(at_s)}
    return {"ph": "i", "s": "t", "name": name, "cat": category, **place, "args": args}


def _async(pid: int, name: str, category: str, key: str, start_s: float, end_s: float) -> Iterator[Event]:
    common = {"name": name, "cat": category, "id": key, "pid": pid, "tid": 0}
    yield {"ph": "b", **common, "ts": microseconds(start_s), "args": {}}
    yield {"ph": "e", **common, "ts": microseconds(end_s), "args": {}}


def _recovery(pid: int, span: Span) -> Iterator[Event]:
    key = f"{pid}.recovery.{span.number}"
    yield from _async(pid, span.kind, "recovery", key, span.start_s, span.end_s)


def _fault(pid: int, strike: Strike, threads: Iterable[int]) -> Iterator[Event]:
    title = f"{strike.fault} {strike.name}"
    for tid in threads:
        yield _instant(pid, tid, title, "fault", strike.start_s, {"fault": strike.fault})
    if strike.end_s is not None and strike.end_s >= strike.start_s:
        yield from _async(pid, title, "fault", f"{pid}.{strike.fault}", strike.start_s, strike.end_s)


def _loss(pid: int, scenario: Scenario) -> Iterator[Event]:
    """The loss of the lowest rank that reports one, as a counter."""
    history = scenario.history
    known = losses(history)
    if not known:
        return
    origin = time_of(history.events[0])
    for commit in history.commits(min(known)):
        # JSON has no NaN: a loss that is none is left out, not written as text that a viewer refuses.
        if commit.loss is not None and math.isfinite(commit.loss):
            place = {"pid": pid, "tid": 0, "ts": microseconds(commit.t - origin)}
            yield {"ph": "C", "name": "loss", "cat": "loss", **place, "args": {"loss": commit.loss}}
