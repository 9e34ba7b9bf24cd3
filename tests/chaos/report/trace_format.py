"""The Trace Event Format, as far as we write it: models of its public description, and rules between events.

"Trace Event Format", Google, 2016: a JSON object with `traceEvents`; each event has `ph`, `pid`, `tid`,
`name` and, unless it is metadata, `ts` in microseconds. `X` adds `dur`, `i` a scope, `C` numbers in `args`,
`b` and `e` a category and an id. Whatever is not listed here is refused: flow events (`s`, `t`, `f`), say, of
which we write none. Events may stand in any order.
"""

from __future__ import annotations

import json
from collections import Counter as Numbers
from collections import defaultdict
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

# Viewers drop what is before 0.
Microseconds = Annotated[int, Field(ge=0)]
Number = Annotated[int | float, Field(allow_inf_nan=False)]


class _Event(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, Field(min_length=1)]
    pid: int
    tid: int


class Metadata(_Event):
    """What a process or a thread is called, or where it stands."""

    ph: Literal["M"]
    name: Literal["process_name", "thread_name", "process_sort_index", "thread_sort_index"]
    args: dict[Literal["name"], str] | dict[Literal["sort_index"], int]

    @model_validator(mode="after")
    def _told(self) -> Metadata:
        key = "sort_index" if self.name.endswith("sort_index") else "name"
        if [*self.args] != [key]:
            raise ValueError(f"{self.name} has to tell its {key}")
        return self


class _Timed(_Event):
    cat: Annotated[str, Field(min_length=1)]
    ts: Microseconds


class Complete(_Timed):
    ph: Literal["X"]
    dur: Microseconds
    args: dict[str, JsonValue]


class Instant(_Timed):
    ph: Literal["i"]
    s: Literal["g", "p", "t"]
    args: dict[str, JsonValue]


class Counter(_Timed):
    ph: Literal["C"]
    args: Annotated[dict[str, Number], Field(min_length=1)]


class Async(_Timed):
    ph: Literal["b", "e"]
    id: Annotated[str, Field(min_length=1)]
    args: dict[str, JsonValue]


Event = Annotated[Metadata | Complete | Instant | Counter | Async, Field(discriminator="ph")]


class Trace(BaseModel):
    """The JSON object form of a trace file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    traceEvents: list[Event]
    displayTimeUnit: Literal["ms", "ns"]
    otherData: dict[str, str]


def problems(text: str) -> list[str]:
    """Everything that is wrong with a trace file; nothing if a viewer can read all of it."""
    try:
        data = json.loads(text, parse_constant=_no_number)
        trace = Trace.model_validate(data)
    except ValidationError as error:
        return [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
    except ValueError as error:
        return [f"not JSON: {error}"]
    events = trace.traceEvents
    return [*_unnamed(events), *_crossing(events), *_unpaired(events), *_shared(events)]


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def _unnamed(events: list[Event]) -> Iterator[str]:
    """A process and a thread that has events has one name."""
    for kind in ("process_name", "thread_name"):

        def place(event: Event, process: bool = kind == "process_name") -> tuple[int, ...]:
            return (event.pid,) if process else (event.pid, event.tid)

        named = Numbers(place(event) for event in events if event.name == kind)
        for where in sorted({place(event) for event in events if event.ph != "M"} | {*named}):
            if named[where] != 1:
                yield f"{kind} of {where}: {named[where]} times"


def _crossing(events: list[Event]) -> Iterator[str]:
    """Complete events of one thread nest."""
    threads: dict[tuple[int, int], list[Complete]] = defaultdict(list)
    for event in events:
        if isinstance(event, Complete):
            threads[event.pid, event.tid].append(event)
    for thread, found in threads.items():
        open_until: list[int] = []
        for event in sorted(found, key=lambda event: (event.ts, -event.dur)):
            while open_until and open_until[-1] <= event.ts:
                open_until.pop()
            if open_until and event.ts + event.dur > open_until[-1]:
                yield f"{event.name} in thread {thread} reaches past what it began in"
            open_until.append(event.ts + event.dur)


def _unpaired(events: list[Event]) -> Iterator[str]:
    """Asynchronous events of one category and id nest: each end is that of the newest begin, by name."""
    found = [event for event in events if isinstance(event, Async)]
    begun: dict[tuple[str, str], list[Async]] = defaultdict(list)
    # Stable: of what happens at once, the order in the file is the order.
    for event in sorted(found, key=lambda event: event.ts):
        stack = begun[event.cat, event.id]
        if event.ph == "b":
            stack.append(event)
        elif not stack or stack[-1].name != event.name:
            yield f"{event.name} with id {event.id} ends and has not begun"
        else:
            stack.pop()
    yield from (f"{e.name} with id {e.id} begins and does not end" for stack in begun.values() for e in stack)


def _shared(events: list[Event]) -> Iterator[str]:
    """An id of a category is one process's: ids are global in this format."""
    owners: dict[tuple[str, str], set[int]] = defaultdict(set)
    for event in events:
        if isinstance(event, Async):
            owners[event.cat, event.id].add(event.pid)
    yield from (
        f"id {key[1]} is used by {len(pids)} processes" for key, pids in owners.items() if len(pids) > 1
    )
