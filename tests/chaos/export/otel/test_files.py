"""JSON lines as OTLP has them: read back by protobuf's own reader, ids apart."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from chaos.export.otel import files, sdk
from chaos.export.otel.run import telemetry
from chaos.export.otel.telemetry import Telemetry
from chaos.report.stored import read
from tests.chaos.report.folder import write_run


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Telemetry:
    return telemetry(read(write_run(tmp_path_factory.mktemp("run"))), 1_800_000_000.0)


def base64_ids(value: Any) -> Any:
    """What protobuf's JSON has in place of OTLP's hexadecimal ids."""
    if isinstance(value, list):
        return [base64_ids(item) for item in value]
    if isinstance(value, dict):
        return {
            key: base64.b64encode(bytes.fromhex(item)).decode()
            if key in ("traceId", "spanId", "parentSpanId")
            else base64_ids(item)
            for key, item in value.items()
        }
    return value


def test_each_scenario_is_a_line_and_all_of_it_is_there(sent: Telemetry) -> None:
    lines = list(files.traces(sent))
    assert len(lines) == 7
    assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines)
    whole = TracesData()
    for line in lines:
        whole.MergeFrom(ParseDict(base64_ids(json.loads(line)), TracesData()))
    expected = TracesData()
    for line in lines:
        trace = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"]
        spans = [span for span in sdk.spans_of(sent) if f"{span.context.trace_id:032x}" == trace]
        expected.MergeFromString(encode_spans(spans).SerializeToString())
    assert whole == expected


def test_ids_are_hexadecimal_enumerations_numbers_and_long_numbers_text(sent: Telemetry) -> None:
    spans = json.loads(next(iter(files.traces(sent))))["resourceSpans"][0]["scopeSpans"][0]["spans"]
    root, recovery = spans[0], next(span for span in spans if span["name"] == "recovery")
    assert len(bytes.fromhex(root["traceId"])) == 16
    assert len(bytes.fromhex(root["spanId"])) == 8
    assert recovery["parentSpanId"] == root["spanId"]
    assert recovery["links"][0]["spanId"] in {span["spanId"] for span in spans if "fault" in span["name"]}
    assert root["kind"] == 1
    assert root["startTimeUnixNano"] == str(sent.spans[0].start_ns)


def test_metrics_are_one_line_of_a_file_of_their_own(sent: Telemetry) -> None:
    (line,) = files.metrics(sent)
    found = ParseDict(json.loads(line), MetricsData())
    expected = MetricsData.FromString(encode_metrics(sdk.metrics_of(sent)).SerializeToString())
    assert found == expected
