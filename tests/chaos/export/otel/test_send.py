"""On the wire: what a collector gets, and what is said when it does not take it."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceResponse,
)

from chaos.cli.app import _main as torch_chaos
from chaos.errors import Refused, UserError
from chaos.export.otel import send as sending
from chaos.export.otel.run import telemetry
from chaos.export.otel.send import is_loopback, send
from chaos.export.otel.telemetry import Telemetry
from chaos.report.stored import read
from tests.chaos.export.otel.collector import Answer, Collector, collecting, told
from tests.chaos.report.folder import write_run

STARTED_S = 1_800_000_000.0
VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def sent(folder: Path) -> Telemetry:
    return telemetry(read(folder), STARTED_S)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as found:
        monkeypatch.setenv(VARIABLE, found.endpoint)
        yield found


def test_a_collector_gets_every_span_and_every_metric(collector: Collector, sent: Telemetry) -> None:
    done = send(sent)
    assert (done.spans, done.metrics) == (len(collector.spans), len(collector.metrics))
    assert done.urls == (f"{collector.endpoint}/v1/traces", f"{collector.endpoint}/v1/metrics")
    for mine, theirs in zip(sent.spans, collector.spans, strict=True):
        assert int.from_bytes(theirs.trace_id) == mine.trace_id
        assert int.from_bytes(theirs.span_id) == mine.span_id
        assert int.from_bytes(theirs.parent_span_id) == (mine.parent_id or 0)
        assert theirs.name == mine.name
        assert (theirs.start_time_unix_nano, theirs.end_time_unix_nano) == (mine.start_ns, mine.end_ns)
        assert told(theirs.attributes) == {
            key: list(value) if isinstance(value, tuple) else value for key, value in mine.attributes.items()
        }
        assert [(e.name, e.time_unix_nano) for e in theirs.events] == [
            (moment.name, moment.at_ns) for moment in mine.moments
        ]
        assert [int.from_bytes(link.span_id) for link in theirs.links] == [*mine.links]
        assert (theirs.status.code, theirs.status.message) == (2 if mine.error else 0, mine.error)
    whole = collector.metrics["torch_chaos.recovery.duration"].histogram
    assert sum(point.count for point in whole.data_points) == sum(s.name == "recovery" for s in sent.spans)
    assert whole.aggregation_temporality == 2
    assert {(p.start_time_unix_nano, p.time_unix_nano) for p in whole.data_points} == {
        (sent.start_ns, sent.end_ns)
    }
    faults = collector.metrics["torch_chaos.faults"].sum
    assert faults.is_monotonic
    assert {told(p.attributes)["torch_chaos.fault.name"] for p in faults.data_points} >= {"process.kill"}


def test_the_resource_is_the_run(
    collector: Collector, sent: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(sent)
    found = told(collector.requests[0][2].resource_spans[0].resource.attributes)
    assert found["service.name"] == "torch-chaos"
    assert (found["torch_chaos.run.suite"], found["torch_chaos.run.seed"]) == ("sample", 7)
    assert found["torch_chaos.plan.hash"] == sent.resource["torch_chaos.plan.hash"]
    assert told(collector.requests[-1][2].resource_metrics[0].resource.attributes) == found
    monkeypatch.setenv("OTEL_SERVICE_NAME", "nightly")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=ci,torch_chaos.run.seed=8")
    send(sent)
    found = told(collector.requests[-1][2].resource_metrics[0].resource.attributes)
    assert (found["service.name"], found["deployment.environment.name"]) == ("nightly", "ci")
    assert found["torch_chaos.run.seed"] == 7


def test_the_variables_of_the_exporters_count(
    collector: Collector, sent: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.endpoint}/v1/traces")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{collector.endpoint}/v1/metrics")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=blue")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "DELTA")
    send(sent)
    assert {headers["x-tenant"] for _, headers, _ in collector.requests} == {"blue"}
    assert len(collector.spans) == len(sent.spans)
    assert collector.metrics["torch_chaos.scenarios"].sum.aggregation_temporality == 1


def test_many_spans_go_in_several_requests(
    collector: Collector, sent: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "BATCH", 10)
    send(sent)
    assert [path for path, *_ in collector.requests].count("/v1/traces") == -(-len(sent.spans) // 10)
    assert len(collector.spans) == len(sent.spans)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(400, "text/plain", b"no such tenant"), "HTTP 400 Bad Request no such tenant"),
        # The exporter takes it for success, and what it was to send is nowhere.
        (Answer(302, headers={"Location": "/elsewhere"}), "HTTP 302 Found"),
        (Answer(200, body=b"\xff\xff\xff"), "an answer that is no ExportTraceServiceResponse"),
    ],
)
def test_what_is_not_taken_is_said(
    collector: Collector, sent: Telemetry, monkeypatch: pytest.MonkeyPatch, answer: Answer, said: str
) -> None:
    monkeypatch.setattr(sending, "BATCH", 10)
    collector.answers += [Answer(), answer]
    with pytest.raises(Refused) as refused:
        send(sent)
    assert f"{collector.endpoint}/v1/traces: not taken: {said}" in refused.value.message
    assert refused.value.message.endswith(f"10 of {len(sent.spans)} spans were taken before")


def test_what_is_taken_in_part_is_not_taken(collector: Collector, sent: Telemetry) -> None:
    partial = ExportMetricsPartialSuccess(rejected_data_points=3, error_message="too old")
    told = ExportMetricsServiceResponse(partial_success=partial).SerializeToString()
    collector.answers += [Answer(), Answer(body=told)]
    with pytest.raises(Refused, match="/v1/metrics: not taken: 3 rejected data points: too old; all"):
        send(sent)


def test_an_answer_in_other_words_is_an_answer(collector: Collector, sent: Telemetry) -> None:
    collector.answers += [Answer(202, "application/json", b"{}")]
    assert send(sent).spans == len(sent.spans)


def test_nobody_there_is_said_and_nothing_is_lost(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Bound and not listening: nobody else can be there.
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{bound.getsockname()[1]}"
        monkeypatch.setenv(VARIABLE, endpoint)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        assert torch_chaos(["export", "otel", str(folder)]) == 4
    err = capsys.readouterr().err
    assert f"torch-chaos: {endpoint}/v1/traces: not taken: " in err
    assert "refused" in err
    assert "  mend: start a collector there" in err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL"])
def test_a_protocol_that_is_not_spoken_is_said_before_anything_is_sent(
    collector: Collector, sent: Telemetry, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "grpc")
    with pytest.raises(UserError, match=f"{name}=grpc: only http/protobuf is spoken here"):
        send(sent)
    assert collector.requests == []


def test_what_stays_on_this_machine_takes_no_proxy(
    collector: Collector, sent: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert send(sent).spans == len(collector.spans)
    assert [is_loopback(f"http://{host}/v1") for host in ("localhost:4318", "127.8.8.8", "[::1]:1")] == [
        True
    ] * 3
    assert not is_loopback("http://localhost.example:4318")
    assert not is_loopback("http://10.0.0.1:4318")


def test_the_verb_sends_or_writes(
    folder: Path, collector: Collector, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert torch_chaos(["export", "otel", str(folder)]) == 0
    out = capsys.readouterr().out
    assert f"{len(collector.spans)} spans and 4 metrics taken by {collector.endpoint}/v1/traces, " in out
    collector.requests.clear()
    assert torch_chaos(["export", "otel", str(folder), "--file", str(tmp_path / "new" / "run.jsonl")]) == 0
    traces, metrics = capsys.readouterr().out.split()
    assert (Path(traces).name, Path(metrics).name) == ("run.traces.jsonl", "run.metrics.jsonl")
    lines = Path(traces).read_text(encoding="utf-8").splitlines()
    assert sum(len(json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]) for line in lines) > 40
    assert collector.requests == []


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["export", "otel"], "export otel: of which run?"),
        (["export", "otel", "nowhere"], "nowhere/report.json: cannot be read"),
        (["export", "docs", "somewhere"], "export docs: takes no DIR and no --file"),
        (["export", "fidelity", "--file", "x"], "export fidelity: takes no DIR and no --file"),
    ],
)
def test_wrong_words_say_how_to_mend_them(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert torch_chaos(argv) == 64
    assert said in capsys.readouterr().err


def test_without_the_extra_it_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith(("opentelemetry", "chaos.export.otel"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert torch_chaos(["export", "otel", str(folder)]) == 4
    err = capsys.readouterr().err
    assert "is not installed\n  mend: pip install 'torch-chaos[otel]'" in err
