"""The Trace Event Format, as far as we write it: models of the public description.

"Trace Event Format", Google, 2016: a JSON object with `traceEvents`; each event has `ph`, `pid`, `tid`,
`name` and, unless it is metadata, `ts` in microseconds. `X` adds `dur`, `i` a scope, `C` numbers in `args`,
`b` and `e` a category and an id. Whatever is not listed here is refused.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

Microseconds = Annotated[int, Field(ge=-10_000_000)]


class _Event(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, Field(min_length=1)]
    pid: int
    tid: int


class ProcessOrThreadName(_Event):
    ph: Literal["M"]
    name: Literal["process_name", "thread_name"]
    args: dict[Literal["name"], str]


class SortIndex(_Event):
    ph: Literal["M"]
    name: Literal["process_sort_index", "thread_sort_index"]
    args: dict[Literal["sort_index"], int]


class _Timed(_Event):
    cat: str
    ts: Microseconds


class Complete(_Timed):
    ph: Literal["X"]
    dur: Annotated[int, Field(ge=0)]
    args: dict[str, JsonValue]


class Instant(_Timed):
    ph: Literal["i"]
    s: Literal["g", "p", "t"]
    args: dict[str, JsonValue]


class Counter(_Timed):
    ph: Literal["C"]
    args: Annotated[dict[str, float], Field(min_length=1)]


class Async(_Timed):
    ph: Literal["b", "e"]
    id: Annotated[str, Field(min_length=1)]
    args: dict[str, JsonValue]


Event = ProcessOrThreadName | SortIndex | Complete | Instant | Counter | Async


class Trace(BaseModel):
    """The JSON object form of a trace file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    traceEvents: list[Event]
    displayTimeUnit: Literal["ms", "ns"]
    otherData: dict[str, str]
