from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from chaos.errors import UserError
from chaos.report.pages import write_pages
from tests.chaos.report.folder import write_run


def test_both_files_are_written_and_written_anew(tmp_path: Path) -> None:
    folder = write_run(tmp_path)
    (folder / "report.html").write_text("old")
    write_pages(folder, ["net.delay"])
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert json.loads((folder / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_the_same_run_gives_the_same_page(tmp_path: Path) -> None:
    folder = write_run(tmp_path)
    write_pages(folder)
    first = (folder / "report.html").read_bytes(), (folder / "trace.json").read_bytes()
    write_pages(folder)
    assert first == ((folder / "report.html").read_bytes(), (folder / "trace.json").read_bytes())


def test_a_folder_without_a_report_gets_no_page(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        write_pages(tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_written_to_is_said(tmp_path: Path) -> None:
    folder = write_run(tmp_path, only=["torchrun"])
    # A folder in the place of the file: it holds for root too.
    (folder / "trace.json").mkdir()
    with pytest.raises(UserError, match="cannot be written to"):
        write_pages(folder)
