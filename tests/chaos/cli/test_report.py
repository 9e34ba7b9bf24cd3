"""What is drawn from a run: by the run itself, by `report`, and by `report --as-is`."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from chaos.cli import app
from tests.chaos.report.folder import write_run
from tests.chaos.report.trace_controls import broken_by
from tests.chaos.report.trace_format import problems
from tests.chaos.runs import KILL, chaos, run, suite

DRAWN = ("report.html", "trace.json")


@pytest.mark.slow
def test_a_run_draws_its_page_and_report_draws_it_anew(tmp_path: Path) -> None:
    before_s = time.time()
    done = run(suite(tmp_path, KILL, options={"step_s": 0.005}), tmp_path / "r")
    assert done.code == 0, done.out + done.err
    first = {name: (tmp_path / "r" / name).read_text(encoding="utf-8") for name in DRAWN}
    assert 'class="lanes"' in first["report.html"]
    trace = first["trace.json"]
    assert {event["ph"] for event in json.loads(trace)["traceEvents"]} >= {"M", "X", "i", "b", "e"}
    assert problems(trace) == []
    for control in ("no duration", "an end under another id", "slices that cross", "a thread without a name"):
        broken, said = broken_by(trace, control)
        assert any(said in problem for problem in problems(broken)), control
    # Its spans are at the time of day at which it all happened, to less than a second.
    assert app._main(["export", "otel", str(tmp_path / "r"), "--file", str(tmp_path / "otel.jsonl")]) == 0
    (line,) = (tmp_path / "otel.traces.jsonl").read_text(encoding="utf-8").splitlines()
    root, *rest = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert {span["name"] for span in rest} >= {"fault process.kill", "recovery"}
    (start,) = (event for event in done.history("kill") if event["event"] == "scenario.start")
    assert before_s <= start["unix_s"] <= time.time()
    assert int(root["startTimeUnixNano"]) == pytest.approx(start["unix_s"] * 1e9, abs=1e6)
    clock = {"key": "torch_chaos.scenario.time_from", "value": {"stringValue": "the history"}}
    assert clock in root["attributes"]
    for name in DRAWN:
        (tmp_path / "r" / name).unlink()
    assert chaos("report", tmp_path / "r", "--format", "plain").returncode == 0
    again = {name: (tmp_path / "r" / name).read_text(encoding="utf-8") for name in DRAWN}
    assert again["trace.json"] == first["trace.json"]
    assert 'class="lanes"' in again["report.html"]


def test_as_it_is_judges_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(tmp_path)
    for path in folder.glob("*/history.jsonl"):
        path.unlink()
    before = (folder / "report.json").read_bytes()
    assert app._main(["report", str(folder), "--as-is"]) == 0
    assert capsys.readouterr().out.split() == [str(folder / name) for name in DRAWN]
    assert (folder / "report.json").read_bytes() == before
    assert "VIOLATED" in (folder / "report.html").read_text(encoding="utf-8")
    assert json.loads((folder / "trace.json").read_text(encoding="utf-8"))["traceEvents"] == []


def test_as_it_is_needs_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app._main(["report", str(tmp_path), "--as-is"]) == 64
    assert "report.json: cannot be read" in capsys.readouterr().err
