"""Telemetry to a collector, by OTLP over HTTP. Needs the extra `otel`.

Rules kept here:

- Where it goes is what the OTEL_EXPORTER_OTLP_* variables say, and without them no further than this machine.
- Sent means that the collector said so. A redirect, which the exporters take for success, and a partial
  success, which they do not look at, are failures here.
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

import requests
from google.protobuf.message import DecodeError
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.trace.export import SpanExportResult

from chaos.errors import Refused, UserError
from chaos.export.otel.sdk import metrics_of, spans_of
from chaos.export.otel.telemetry import Telemetry

BATCH = 512
"""Spans in one request, as in the SDK's own pipeline."""
PROTOCOL = "http/protobuf"
MEND = (
    "start a collector there, or name another by OTEL_EXPORTER_OTLP_ENDPOINT, and send it again: the run's "
    "folder is as it was, and the ids are the same; --file FILE writes files instead"
)


@dataclass(frozen=True)
class Sent:
    """What was taken, and where."""

    spans: int
    metrics: int
    urls: tuple[str, ...]


def send(told: Telemetry) -> Sent:
    """Send everything, spans first.

    Raises:
        UserError: the environment asks for a protocol that is not spoken here.
        Refused: the collector could not be reached, or did not take all of it.
    """
    _check_protocol()
    sent, urls = 0, []
    with _Session(ExportTraceServiceResponse, "rejected_spans") as session:
        exporter, rest = OTLPSpanExporter(session=session), spans_of(told)
        while batch := list(islice(rest, BATCH)):
            taken = exporter.export(batch) is SpanExportResult.SUCCESS
            session.check(taken, f"{sent} of {len(told.spans)} spans were taken before")
            sent += len(batch)
        urls.append(session.url)
    with _Session(ExportMetricsServiceResponse, "rejected_data_points") as session:
        if told.metrics:
            taken = OTLPMetricExporter(session=session).export(metrics_of(told)) is MetricExportResult.SUCCESS
            session.check(taken, f"all {sent} spans were taken before")
        urls.append(session.url)
    return Sent(sent, len(told.metrics), tuple(url for url in urls if url))


class _Session(requests.Session):
    """A session that keeps what the collector said last, which its exporter only logs.

    Args:
        answer: the message of an answer.
        rejected: the field of its partial success that counts what was not taken.
    """

    def __init__(self, answer: Any, rejected: str) -> None:
        super().__init__()
        self._answer, self._rejected = answer, rejected
        self.url = ""
        self.problem = "nothing was sent"

    def request(self, method: str | bytes, url: str | bytes, *args: Any, **more: Any) -> requests.Response:
        self.url = url if isinstance(url, str) else url.decode()
        # What stays on this machine takes no proxy of the environment.
        self.trust_env = not is_loopback(self.url)
        try:
            response = super().request(method, url, *args, **more)
        except Exception as error:
            self.problem = str(error)
            raise
        self.problem = self._problem(response)
        return response

    def _problem(self, response: requests.Response) -> str:
        """What is wrong with an answer; "" if nothing is."""
        if not 200 <= response.status_code < 300:
            return f"HTTP {response.status_code} {response.reason} {response.text[:200]}".strip()
        if response.headers.get("Content-Type") != "application/x-protobuf":
            return ""  # one that says no more than that it was taken
        try:
            partial = self._answer.FromString(response.content).partial_success
        except DecodeError:
            return f"an answer that is no {self._answer.DESCRIPTOR.name}: {response.content[:80]!r}"
        number = getattr(partial, self._rejected)
        return f"{number} {self._rejected.replace('_', ' ')}: {partial.error_message}" if number else ""

    def check(self, taken: bool, before: str) -> None:
        """Raises Refused unless everything was taken."""
        if not taken or self.problem:
            raise Refused(f"{self.url}: not taken: {self.problem}; {before}", MEND)


def is_loopback(url: str) -> bool:
    """Whether a URL leads to this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_protocol() -> None:
    for signal in ("TRACES", "METRICS"):
        own, common = f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"
        name = own if os.environ.get(own) else common
        asked = os.environ.get(name) or PROTOCOL
        if asked != PROTOCOL:
            raise UserError(
                f"{name}={asked}: only {PROTOCOL} is spoken here",
                f"name the collector's HTTP endpoint, by custom port 4318, and set {name}={PROTOCOL}",
            )
