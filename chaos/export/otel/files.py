"""Telemetry as OTLP's JSON lines, the form of OpenTelemetry's file exporter. Needs the extra `otel`."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from chaos.export.otel.sdk import metrics_of, spans_of
from chaos.export.otel.telemetry import Telemetry

_IDS = frozenset(("traceId", "spanId", "parentSpanId"))


def traces(told: Telemetry) -> Iterator[str]:
    """A line for each scenario: a TracesData message."""
    for _, spans in groupby(spans_of(told), key=lambda span: span.context.trace_id):
        yield _line(encode_spans(list(spans)))


def metrics(told: Telemetry) -> Iterator[str]:
    """One line for the run: a MetricsData message. A file holds one kind of them, so this is another file."""
    yield _line(encode_metrics(metrics_of(told)))


def _line(message: Message) -> str:
    told = _hex_ids(MessageToDict(message, use_integers_for_enums=True))
    return json.dumps(told, separators=(",", ":"), ensure_ascii=False) + "\n"


def _hex_ids(told: Any) -> Any:
    """OTLP departs from protobuf's own JSON in one thing: ids are hexadecimal, not base64."""
    if isinstance(told, list):
        return [_hex_ids(item) for item in told]
    if isinstance(told, dict):
        return {
            key: base64.b64decode(item).hex() if key in _IDS else _hex_ids(item) for key, item in told.items()
        }
    return told
