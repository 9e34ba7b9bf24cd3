"""A collector for tests: takes OTLP over HTTP on this machine, and answers as a test wants."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

PROTOBUF = "application/x-protobuf"
PATHS: dict[str, tuple[Any, Any]] = {
    "/v1/traces": (ExportTraceServiceRequest, ExportTraceServiceResponse),
    "/v1/metrics": (ExportMetricsServiceRequest, ExportMetricsServiceResponse),
}


@dataclass
class Answer:
    """One answer. `body`: None for an empty message of the right kind."""

    status: int = 200
    kind: str = PROTOBUF
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Collector:
    """What came, and what is answered: `answers` first, then that all was taken."""

    endpoint: str
    answers: list[Answer] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)

    @property
    def spans(self) -> list[Any]:
        """Spans in the order of their arrival."""
        return [
            span
            for path, _, message in self.requests
            if path == "/v1/traces"
            for resource in message.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def metrics(self) -> dict[str, Any]:
        """Metrics by name."""
        return {
            metric.name: metric
            for path, _, message in self.requests
            if path == "/v1/metrics"
            for resource in message.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that listens until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            request, response = PATHS[self.path]
            assert self.headers["Content-Type"] == PROTOBUF
            message = request.FromString(body)
            found.requests.append((self.path, dict(self.headers), message))
            answer = found.answers.pop(0) if found.answers else Answer()
            told = response().SerializeToString() if answer.body is None else answer.body
            self.send_response(answer.status)
            for name, value in {**answer.headers, "Content-Type": answer.kind}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Collector(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def told(attributes: Any) -> dict[str, Any]:
    """Attributes of a message as plain data."""
    return {item.key: _plain(item.value) for item in attributes}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(item) for item in value.array_value.values]
    return getattr(value, kind)
