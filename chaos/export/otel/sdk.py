"""Telemetry as objects of OpenTelemetry's SDK, which its exporters take. Needs the extra `otel`.

The SDK's pipelines are not used. They are for spans and numbers that come up now: their samplers, limits,
clocks and drawn ids would all have to be kept from what has long happened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags

import chaos
from chaos.export.otel import telemetry as plain

TEMPORALITY = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
_SCOPE = InstrumentationScope("torch_chaos", chaos.__version__)


def resource_of(told: plain.Telemetry) -> Resource:
    """The run. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES may name the service, and add to it."""
    name = Resource({SERVICE_NAME: told.resource[SERVICE_NAME]})
    rest = {key: value for key, value in told.resource.items() if key != SERVICE_NAME}
    return name.merge(OTELResourceDetector().detect()).merge(Resource(rest))


def spans_of(told: plain.Telemetry) -> Iterator[ReadableSpan]:
    """All spans, in their order."""
    resource = resource_of(told)
    for span in told.spans:
        yield ReadableSpan(
            name=span.name,
            context=_context(span.trace_id, span.span_id),
            parent=None if span.parent_id is None else _context(span.trace_id, span.parent_id),
            resource=resource,
            attributes=span.attributes,
            events=[Event(moment.name, moment.attributes, moment.at_ns) for moment in span.moments],
            links=[Link(_context(span.trace_id, link)) for link in span.links],
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=_SCOPE,
        )


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def metrics_of(told: plain.Telemetry) -> MetricsData:
    """All metrics. They are of one run: what is added up since its start and what is new are the same."""
    wanted = os.environ.get(TEMPORALITY, "cumulative").lower()
    temporality = (
        AggregationTemporality.DELTA
        if wanted in ("delta", "lowmemory")
        else AggregationTemporality.CUMULATIVE
    )
    metrics = [
        Metric(metric.name, metric.description, metric.unit, _data(told, metric, temporality))
        for metric in told.metrics
    ]
    scope = ScopeMetrics(scope=_SCOPE, metrics=metrics, schema_url="")
    return MetricsData([ResourceMetrics(resource_of(told), [scope], schema_url="")])


def _data(
    told: plain.Telemetry, metric: plain.Metric, temporality: AggregationTemporality
) -> Sum | Histogram:
    times = (told.start_ns, told.end_ns)
    numbers = [
        NumberDataPoint(point.attributes, *times, value=point.value)
        for point in metric.points
        if isinstance(point, plain.Count)
    ]
    if numbers:
        return Sum(numbers, temporality, is_monotonic=True)
    return Histogram(
        [
            HistogramDataPoint(
                point.attributes,
                *times,
                count=sum(point.counts),
                sum=point.total,
                bucket_counts=point.counts,
                explicit_bounds=point.bounds,
                min=point.least,
                max=point.most,
            )
            for point in metric.points
            if isinstance(point, plain.Distribution)
        ],
        temporality,
    )
