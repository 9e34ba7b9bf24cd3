from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos.report.stored import read
from chaos.report.trace import trace
from tests.chaos.report.folder import write_run
from tests.chaos.report.trace_controls import CONTROLS, broken_by
from tests.chaos.report.trace_format import Async, Counter, Instant, Trace, problems


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    data = trace(read(write_run(tmp_path_factory.mktemp("run"))))
    return Trace.model_validate(json.loads(json.dumps(data, allow_nan=False)))


def scenario(found: Trace, name: str) -> int:
    names = {e.args["name"]: e.pid for e in found.traceEvents if e.name == "process_name"}  # type: ignore[index]
    return next(pid for title, pid in names.items() if str(title).startswith(f"{name}:"))


def test_it_keeps_every_rule_of_the_format(found: Trace) -> None:
    assert problems(found.model_dump_json()) == []


def test_events_may_stand_in_any_order(found: Trace) -> None:
    # Of what happens at once the order counts, so the rest is moved as a whole: metadata to the end.
    moved = sorted(found.traceEvents, key=lambda event: (event.ph == "M", -event.pid))
    assert problems(found.model_copy(update={"traceEvents": moved}).model_dump_json()) == []


@pytest.mark.parametrize("name", CONTROLS)
def test_what_breaks_a_rule_is_found(found: Trace, name: str) -> None:
    broken, said = broken_by(found.model_dump_json(), name)
    assert any(said in problem for problem in problems(broken)), problems(broken)


def test_each_scenario_is_a_process_with_its_lanes(found: Trace) -> None:
    pid = scenario(found, "cut_off")
    lanes = [e.args["name"] for e in found.traceEvents if e.pid == pid and e.name == "thread_name"]  # type: ignore[index]
    assert lanes == ["job", "node 0", "node 1", "node 2", "rank 0", "rank 1", "rank 2"]
    assert len({e.pid for e in found.traceEvents}) == 7


def test_recoveries_and_faults_are_in_it(found: Trace) -> None:
    pid = scenario(found, "kill_in_backward.1")
    phases = [
        e.name for e in found.traceEvents if isinstance(e, Async) and e.pid == pid and e.cat == "recovery"
    ]
    assert phases[::2] == ["detect", "fence", "regroup", "transfer", "resume"] * 2
    struck = [
        e.name for e in found.traceEvents if isinstance(e, Instant) and e.pid == pid and e.cat == "fault"
    ]
    assert struck == ["f1 process.kill", "f2 process.kill", "f3 process.kill"]


def test_the_loss_is_a_counter(found: Trace) -> None:
    pid = scenario(found, "hostile_words")
    counted = [e.args["loss"] for e in found.traceEvents if isinstance(e, Counter) and e.pid == pid]
    assert counted == [2.0, 1.0, pytest.approx(2 / 3), 0.5]


def test_a_loss_that_is_no_number_is_left_out(tmp_path: Path) -> None:
    folder = write_run(tmp_path, only=["hostile_words"])
    path = folder / "hostile_words" / "history.jsonl"
    path.write_text(path.read_text().replace('"loss": 1.0', '"loss": NaN'), encoding="utf-8")
    data = trace(read(folder))
    json.dumps(data, allow_nan=False)
    events = Trace.model_validate(data).traceEvents
    assert [e.args["loss"] for e in events if isinstance(e, Counter)] == [2.0, pytest.approx(2 / 3), 0.5]


def test_a_scenario_without_a_history_is_left_out(tmp_path: Path) -> None:
    folder = write_run(tmp_path, only=["torchrun"])
    (folder / "torchrun" / "history.jsonl").unlink()
    assert trace(read(folder))["traceEvents"] == []
