from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from chaos.compare.read import reports_at
from chaos.errors import UserError
from tests.chaos.report.sample import report


def put(folder: Path, started: str | None = None, **more: object) -> Path:
    folder.mkdir(parents=True)
    environment = {"started": started} if started else {}
    (folder / "report.json").write_text(json.dumps({**report(), "environment": environment, **more}))
    return folder


def test_a_file_a_run_and_a_folder_of_runs(tmp_path: Path) -> None:
    later = put(tmp_path / "b", "2026-05-02T00:00:00+00:00")
    first = put(tmp_path / "deep" / "a", "2026-05-01T23:00:00-03:00")
    put(later / "earlier-1", "2026-05-01T00:00:00+00:00")
    assert [one.path.parent for one in reports_at(tmp_path)] == [later / "earlier-1", later, first]
    # A run's folder is that run alone, whatever it has moved aside.
    assert [one.path for one in reports_at(later)] == [later / "report.json"]
    assert [one.path for one in reports_at(first / "report.json")] == [first / "report.json"]


def test_an_old_report_is_dated_by_its_folder_or_its_file(tmp_path: Path) -> None:
    named = put(tmp_path / "smoke-20260102-030405-2")
    plain = put(tmp_path / "mine")
    os.utime(plain / "report.json", (0, 0))
    assert [one.path.parent for one in reports_at(tmp_path)] == [plain, named]
    (one,) = reports_at(named)
    assert one.started == datetime(2026, 1, 2, 3, 4, 5).astimezone(UTC)
    assert reports_at(plain)[0].started == datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not a report of this version: the file: "),
        ("[]", "not a report of this version: the file: "),
        (json.dumps({**report(), "seed": "x"}), "not a report of this version: seed: "),
    ],
)
def test_what_is_no_report_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(UserError, match=said):
        reports_at(tmp_path)


def test_nothing_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no report\.json in it or below"):
        reports_at(tmp_path)
    with pytest.raises(UserError, match="cannot be read: No such file"):
        reports_at(tmp_path / "nothing")
