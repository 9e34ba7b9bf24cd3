"""`diff`, `history` and `run --baseline`, as commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos.cli import app
from chaos.report.model import Report
from tests.chaos.compare.recorded import repeats
from tests.chaos.runs import chaos, run, suite

KILL = "  - {name: kill, faults: [{fault: process.kill, where: {rank: 1}, when: {step: 5}}]}\n"


def put(folder: Path, report: Report) -> Path:
    folder.mkdir(parents=True)
    (folder / "report.json").write_text(report.model_dump_json())
    return folder


def verb(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str]:
    code = app._main([str(one) for one in args])
    done = capsys.readouterr()
    return code, done.out + done.err


def test_diff_exits_with_1_for_a_slower_phase_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, same = put(tmp_path / "old", repeats(1)), put(tmp_path / "same", repeats(2))
    slow = put(tmp_path / "slow", repeats(3, slower="transfer"))
    assert verb(capsys, "diff", old, same, "--format", "plain")[0] == 0
    code, said = verb(capsys, "diff", old, slow, "--format", "plain")
    assert (code, said.splitlines()[-1].split(" of ")[0]) == (1, "REGRESSED: transfer")
    assert verb(capsys, "diff", old, slow, "--slower-than", 9)[0] == 0
    code, said = verb(capsys, "diff", old, slow / "report.json", "--format", "json", "--all")
    assert code == 1
    assert json.loads(said)["regressed"] is True


def test_diff_of_too_little_is_inconclusive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = (put(tmp_path / name, repeats(seed, count=1)) for name, seed in (("one", 1), ("two", 2)))
    assert verb(capsys, "diff", one, two)[0] == 2


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--slower-than", 1], "--slower-than 1: not above 1"),
        (["--alpha", 1], "--alpha 1: not between 0 and 1"),
        (["--floor", "10"], "--floor: '10' is not a duration"),
        (["--floor", "0s"], "a ratio to nothing"),
    ],
)
def test_limits_that_make_no_sense_are_refused(
    tmp_path: Path, args: list[object], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one = put(tmp_path / "one", repeats(1, count=1))
    code, text = verb(capsys, "diff", one, one, *args)
    assert code == 64
    assert said in text


def test_history_is_a_table_of_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(3):
        put(tmp_path / f"soak-2026010{seed + 1}-000000", repeats(seed, count=4))
    code, said = verb(capsys, "history", tmp_path, "--format", "plain")
    lines = said.splitlines()
    assert (code, lines[0]) == (0, "soak: 3 runs, medians")
    assert [line.split()[2] for line in lines[3:6]] == [f"soak-2026010{n}-000000" for n in (1, 2, 3)]
    assert "the newest against the 2 before it:" in lines
    code, said = verb(capsys, "history", tmp_path, "--format", "json", "--suite", "soak")
    assert [len(trend["rows"]) for trend in json.loads(said)] == [3]
    assert verb(capsys, "history", tmp_path / "soak-20260101-000000")[0] == 0
    assert verb(capsys, "history", tmp_path, "--suite", "nothing")[0] == 0


@pytest.mark.slow
def test_a_run_is_held_against_its_baseline(tmp_path: Path) -> None:
    path = suite(tmp_path, KILL)
    first = run(path, tmp_path / "first")
    assert first.code == 0, first.out + first.err
    assert first.report["environment"]["started"].endswith("+00:00")
    # Its fault now comes at a step that is never made: inconclusive by itself, worse than before.
    path.write_text(path.read_text().replace("step: 5", "step: 500"))
    again = run(path, tmp_path / "again", "--baseline", tmp_path / "first")
    assert again.code == 1, again.out + again.err
    assert again.report["exit_code"] == 2
    assert "REGRESSED: kill PASS -> INCONCLUSIVE (unexpected)" in again.out
    missing = chaos("run", path, "--baseline", tmp_path / "nowhere", "--report-dir", tmp_path / "never")
    assert missing.returncode == 64
    assert not (tmp_path / "never").exists()
