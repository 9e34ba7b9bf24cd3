from __future__ import annotations

from pathlib import Path

import pytest

from chaos.errors import UserError
from chaos.report.stored import lines_of, read, unanswered
from tests.chaos.report.folder import write_run


def test_lines_keep_their_number_whatever_stands_between_them() -> None:
    text = '{"t": 2, "event": "b"}\n\n{"torn\n{"t": 1, "event": "a"}\n[]\n'
    assert [(line.number, line.event["event"]) for line in lines_of(text)] == [(4, "a"), (1, "b")]


def test_a_line_separator_inside_a_string_ends_no_line() -> None:
    assert [line.number for line in lines_of('{"t": 1, "event": "a\u2028b"}\n{"t": 2, "event": "c"}')] == [
        1,
        2,
    ]


def test_report_plan_history_and_twin_are_read(tmp_path: Path) -> None:
    stored = read(write_run(tmp_path, only=["stale_state"]))
    scenario = stored.scenarios["stale_state"]
    assert scenario.lines
    assert scenario.twin is not None
    assert scenario.planned["description"] == "About stale_state."
    assert len(scenario.history.events) == len(scenario.lines)


def test_what_is_not_there_is_told_apart_from_what_is_empty(tmp_path: Path) -> None:
    folder = write_run(tmp_path, only=["stale_state"])
    (folder / "stale_state" / "history.jsonl").unlink()
    (folder / "plan.json").unlink()
    scenario = read(folder).scenarios["stale_state"]
    assert (scenario.lines, scenario.twin, scenario.planned) == (None, None, {})


def test_a_folder_without_a_report_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"report\.json: cannot be read"):
        read(tmp_path)


def test_a_report_of_another_shape_is_refused(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text('{"suite": 3}')
    with pytest.raises(
        UserError, match="not a report of this version: suite: Input should be a valid string"
    ):
        read(tmp_path)


def test_a_damaged_plan_is_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path, only=["stale_state"])
    (folder / "plan.json").write_text("{")
    with pytest.raises(UserError, match=r"plan\.json: not JSON"):
        read(folder)


def test_faults_that_no_recovery_answers(tmp_path: Path) -> None:
    by_name = {s.name: unanswered(s) for s in read(write_run(tmp_path)).report.scenarios}
    assert by_name["hostile_words"] == {"f1"}
    assert by_name["kill_in_backward.1"] == frozenset()
