"""What the command line of `attach` refuses, and with which exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.attach.job import find
from chaos.cli import attach as verbs
from chaos.cli.app import _main
from tests.chaos.attach.tables import SHELL, table, torchrun


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbs, "job_of", lambda pids: find(table(*SHELL, *torchrun()), pids[0], 0))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["99"], 4, "there is no process 99"),
        (["10", "--fault", "process.exception", "--rank", "1"], 4, "can't be armed on a running job"),
        (["10", "--fault", "net.loss", "--rank", "1"], 4, "acts on nodes and what is between them"),
        (["10", "--fault", "process.stop"], 64, "on which rank? 0, 1 are here"),
        (["10", "--rank", "1"], 64, "no fault is named"),
        (
            ["10", "--fault", "process.kill", "--rank", "1", "--within", "soon"],
            64,
            "--within: 'soon' is not a",
        ),
        (["10", "--faults", "none.yaml"], 64, "there is no file none.yaml"),
        (["10", "--faults", "none.yaml", "--rank", "1"], 64, "and so do other options"),
        (["10", "--fault", "process.stop", "--rank", "1", "--param", "x"], 64, "no `=` in it"),
    ],
)
def test_it_is_refused_before_anything_is_touched(
    words: list[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main(["attach", *words, "--report-dir", str(tmp_path / "r")]) == code
    assert said in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_it_says_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert _main(["attach", "10"]) == 0
    first, *_, last, nodes = capsys.readouterr().out.splitlines()
    assert first == "launcher pid 10: torchrun --nproc-per-node 2 train.py"
    assert last.startswith("can be armed: process.kill, process.stop")
    assert nodes.startswith("faults of nodes and networks can't: ")
