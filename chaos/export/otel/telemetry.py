"""What a run tells as telemetry: spans and metrics as plain data, in the terms of OpenTelemetry's data model.

Nothing here knows the library that carries it; `chaos.export.otel.sdk` hands it over. Times are nanoseconds
since the Unix epoch, as the model has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Value = str | bool | int | float | tuple[str, ...]
Attributes = Mapping[str, Value]


@dataclass(frozen=True)
class Moment:
    """An event of a span."""

    name: str
    at_ns: int
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Span:
    """One span.

    Attributes:
        trace_id: 128 bits; one trace for each scenario.
        span_id: 64 bits, unique in its trace.
        parent_id: None for a trace's root.
        links: ids of spans of the same trace that led to this one.
        error: why it counts as failed; "" if it does not.
    """

    trace_id: int
    span_id: int
    parent_id: int | None
    name: str
    start_ns: int
    end_ns: int
    attributes: Attributes = field(default_factory=dict)
    moments: tuple[Moment, ...] = ()
    links: tuple[int, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Count:
    """One point of a counter."""

    attributes: Attributes
    value: int


@dataclass(frozen=True)
class Distribution:
    """One point of a histogram.

    Attributes:
        bounds: upper bounds of all buckets but the last, ascending; a value on a bound is below it.
        counts: one more than bounds.
    """

    attributes: Attributes
    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float
    least: float
    most: float


@dataclass(frozen=True)
class Metric:
    """A counter (`Count`) or a histogram (`Distribution`), with all its points."""

    name: str
    unit: str
    description: str
    points: tuple[Count, ...] | tuple[Distribution, ...]


@dataclass(frozen=True)
class Telemetry:
    """All that one run tells.

    Attributes:
        resource: what everything below is about: the run.
        spans: of all scenarios, each root before its children.
        metrics: over the whole run, from `start_ns` to `end_ns`.
        left_out: scenarios without a history, which have no spans.
    """

    resource: Attributes
    spans: tuple[Span, ...]
    metrics: tuple[Metric, ...]
    start_ns: int
    end_ns: int
    left_out: tuple[str, ...]


def attributes(prefix: str, **told: object) -> dict[str, Value]:
    """`torch_chaos.PREFIX.NAME` to its value; what is unknown (None) is left out.

    A list becomes texts. What a job printed may hold halves of characters, which the wire format refuses.
    """
    return {f"torch_chaos.{prefix}.{name}": _value(item) for name, item in told.items() if item is not None}


def _value(item: object) -> Value:
    if isinstance(item, (bool, int, float)):
        return item
    if isinstance(item, (list, tuple)):
        return tuple(clean(str(each)) for each in item)
    return clean(str(item))


def clean(text: str) -> str:
    """A text that UTF-8 can carry."""
    return text.encode("utf-8", "replace").decode("utf-8")
