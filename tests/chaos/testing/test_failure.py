"""The section of a failed test."""

from __future__ import annotations

import json
from pathlib import Path

from chaos.testing.failure import section
from tests.chaos.histories import Job
from tests.chaos.testing.results import result, scenario


def test_it_has_evidence_timeline_and_the_command_that_runs_it_again(tmp_path: Path) -> None:
    folder = tmp_path / "test_x"
    folder.mkdir()
    events = Job(2).steps(2).kill(1).finish().events
    (folder / "history.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    text = section(result(scenario("VIOLATED"), folder=tmp_path))
    lines = text.splitlines()
    assert lines[:5] == [
        "test_x: VIOLATED (expected PASS), seed 3",
        "first evidence: replicas_agree: they differ",
        "VIOLATED replicas_agree: they differ",
        "  first: step 5",
        "fault f1 process.kill rank 1 step 5: fired, verified",
    ]
    assert "detected rank 1 crash" in text
    assert "stack" not in text
    assert lines[-2:] == [f"report: {tmp_path}", "replay: torch-chaos replay p --only test_x"]


def test_a_deadline_shows_every_stack(tmp_path: Path) -> None:
    (tmp_path / "test_x").mkdir()
    (tmp_path / "test_x" / "stacks.txt").write_text("rank 0, pid 7, state S:\n" + "  File x\n" * 140)
    text = section(result(scenario("VIOLATED"), folder=tmp_path))
    assert "every rank's Python stack when the deadline passed:\n  rank 0, pid 7, state S:\n" in text
    assert f"... 21 more lines in {tmp_path / 'test_x' / 'stacks.txt'}" in text


def test_a_job_that_failed_by_itself_has_the_last_word(tmp_path: Path) -> None:
    (tmp_path / "test_x").mkdir()
    (tmp_path / "test_x" / "stderr.log").write_text("NameError: loss\n")
    assert "stderr:\n  NameError: loss\n" in section(result(scenario("ERROR"), folder=tmp_path))
    assert "NameError" not in section(result(scenario("VIOLATED"), folder=tmp_path))
