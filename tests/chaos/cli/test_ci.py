"""What a run tells GitHub Actions."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.cli.ci import places_in, tell_github
from chaos.errors import UserError
from chaos.report.github import Place
from tests.chaos.report.sample import report

SUITE = """\
suite: sample
seed: 1
defaults: {target: {kind: command, argv: ["true"], world: 1}}
scenarios:
  - name: kill_in_backward
    faults: []
  - description: the name need not come first
    name: stale_state
    faults: []
"""


def suite_at(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "my.yaml"
    path.write_text(SUITE)
    return path


def test_nothing_is_said_elsewhere(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    environment = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    tell_github([report()], [], "error", [], to_stderr=False, environment=environment)
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "summary").exists()


def test_places_are_lines_of_the_repository(tmp_path: Path) -> None:
    path = suite_at(tmp_path / "repo" / "chaos")
    assert places_in(path, tmp_path / "repo") == {
        "kill_in_backward": Place("chaos/my.yaml", 5),
        "stale_state": Place("chaos/my.yaml", 8),
    }
    assert places_in(path, tmp_path / "other") == {}


def test_annotations_on_stdout_and_a_summary_that_is_added_to(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = suite_at(tmp_path / "repo")
    summary = tmp_path / "summary"
    summary.write_text("an earlier step\n")
    environment = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": str(tmp_path / "repo"),
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    tell_github([report()], [str(path)], "error", ["slower"], to_stderr=False, environment=environment)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("::error file=my.yaml,line=8,title=VIOLATED%3A stale_state::")
    text = summary.read_text()
    assert text.startswith("an earlier step\n## torch-chaos sample: ")
    assert "### Against the baseline" in text
    # Where stdout is the report, a program reads it. A stored plan has no suite file.
    tell_github([report()], [], "skip", [], to_stderr=True, environment=environment)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[0].startswith("::error title=VIOLATED%3A stale_state::")


def test_a_summary_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    environment = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(tmp_path / "no" / "summary")}
    with pytest.raises(UserError, match="check GITHUB_STEP_SUMMARY"):
        tell_github([report()], [], "skip", [], to_stderr=True, environment=environment)
