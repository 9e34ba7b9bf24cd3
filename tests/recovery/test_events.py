"""The record of what the runtime does, and the seams for those who watch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recovery import events


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    heard: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(events, "listeners", [lambda name, fields: heard.append((name, fields))])
    return heard


def test_an_event_is_heard_and_written(
    heard: list[tuple[str, dict[str, Any]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "events.jsonl"
    monkeypatch.setenv("RECOVERY_EVENTS", str(path))
    events.emit("step.begin", rank=1, step=4)
    events.tell("step.seal", step=4)
    (line,) = [json.loads(line) for line in path.read_text().splitlines()]
    assert (line["event"], line["rank"], line["step"], line["source"]) == ("step.begin", 1, 4, "recovery")
    assert heard == [("step.begin", {"rank": 1, "step": 4}), ("step.seal", {"step": 4})]
    assert path.stat().st_mode & 0o777 == 0o600


def test_without_a_file_nothing_is_written(
    heard: list[tuple[str, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RECOVERY_EVENTS", raising=False)
    events.emit("step.begin", step=4)
    assert len(heard) == 1


def test_a_full_disk_ends_the_record_and_not_the_training(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RECOVERY_EVENTS", "/dev/full")
    monkeypatch.setattr(events, "_given_up", None)
    events.emit("step.begin", step=4)
    events.emit("step.begin", step=5)
    assert capsys.readouterr().err.count("no more events can be written to /dev/full") == 1


def test_a_backend_passes_through_the_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "backend_filters", [lambda b: [b], lambda b: (b,)])
    assert events.filtered("gloo") == (["gloo"],)
