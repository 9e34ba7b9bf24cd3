"""Traces that break one rule of the format each: a check that was never seen red is no check."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Events = list[dict[str, Any]]


def of(events: Events, ph: str) -> dict[str, Any]:
    """The first event of a kind."""
    return next(event for event in events if event["ph"] == ph)


def set_in(kind: str, **more: Any) -> Callable[[Events], None]:
    return lambda events: of(events, kind).update(more)


def without(ph: str, key: str) -> Callable[[Events], None]:
    return lambda events: of(events, ph).__delitem__(key)


def no_longer_named(kind: str) -> Callable[[Events], None]:
    return lambda events: events.remove(next(event for event in events if event["name"] == kind))


def twice(kind: str) -> Callable[[Events], None]:
    return lambda events: events.append(next(event for event in events if event["name"] == kind))


def crossing(events: Events) -> None:
    first = of(events, "X")
    events.append({**first, "ts": first["ts"] + first["dur"] // 2, "dur": first["dur"]})


def ends_first(events: Events) -> None:
    begin = of(events, "b")
    end = next(e for e in events if e["ph"] == "e" and e["id"] == begin["id"] and e["name"] == begin["name"])
    begin["ts"], end["ts"] = end["ts"] + 1, begin["ts"]


def shared(events: Events) -> None:
    """The same id in another scenario."""
    first, other = of(events, "b"), max(event["pid"] for event in events) + 1
    for event in [event for event in events if event["ph"] == "M" and event["pid"] == first["pid"]]:
        events.append({**event, "pid": other})
    events.extend({**event, "pid": other} for event in [*events] if event.get("id") == first["id"])


def flow(events: Events) -> None:
    place = {key: of(events, "X")[key] for key in ("pid", "tid", "ts", "cat")}
    events.append({**place, "ph": "s", "name": "flow", "id": "1"})


CONTROLS: dict[str, tuple[Callable[[Events], None], str]] = {
    "an unknown kind": (set_in("X", ph="Z"), "Input tag 'Z' found"),
    "a flow that nothing ends": (flow, "Input tag 's' found"),
    "a duration below 0": (set_in("X", dur=-1), "greater than or equal to 0"),
    "no duration": (without("X", "dur"), "Field required"),
    "a time before the start": (set_in("i", ts=-1), "greater than or equal to 0"),
    "a time as text": (set_in("i", ts="5"), "valid integer"),
    "no time": (without("C", "ts"), "Field required"),
    "a process as text": (set_in("X", pid="1"), "valid integer"),
    "no thread": (without("X", "tid"), "Field required"),
    "no name": (set_in("X", name=""), "at least 1 character"),
    "an instant without a scope": (without("i", "s"), "Field required"),
    "a counter of text": (set_in("C", args={"loss": "low"}), "valid number"),
    "a counter of nothing": (set_in("C", args={}), "at least 1 item"),
    "a counter that is no number": (set_in("C", args={"loss": float("nan")}), "NaN is no JSON"),
    "an id that is a number": (set_in("b", id=3), "valid string"),
    "no id": (without("b", "id"), "Field required"),
    "no category": (without("e", "cat"), "Field required"),
    "an end under another id": (set_in("e", id="elsewhere"), "ends and has not begun"),
    "an end under another name": (set_in("e", name="else"), "ends and has not begun"),
    "a begin that nothing ends": (set_in("b", id="elsewhere"), "begins and does not end"),
    "an end before its begin": (ends_first, "ends and has not begun"),
    "an id of two processes": (shared, "is used by 2 processes"),
    "slices that cross": (crossing, "reaches past what it began in"),
    "a process without a name": (no_longer_named("process_name"), "process_name of (1,): 0 times"),
    "a thread without a name": (no_longer_named("thread_name"), "thread_name of (1, 0): 0 times"),
    "a thread with two names": (twice("thread_name"), "thread_name of (1, 0): 2 times"),
    "a name without a text": (set_in("M", args={}), "process_name has to tell its name"),
}


def broken_by(text: str, name: str) -> tuple[str, str]:
    """A trace with one rule broken, and what has to be said of it."""
    data = json.loads(text)
    breaks, said = CONTROLS[name]
    breaks(data["traceEvents"])
    return json.dumps(data), said
