"""The file that a search can be taken up from."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.errors import Refused, UserError
from chaos.fuzz.log import NAME, Log
from chaos.fuzz.seen import Round
from chaos.report.coverage import Cell
from tests.chaos.runs import environment

KILL = Cell("process.kill", "backward", "rank 0")


def filled(folder: Path, count: int) -> list[Round]:
    made = [Round(n, "job", (KILL,), (KILL,), reason="ein Grund: ä") for n in range(1, count + 1)]
    with Log(folder) as log:
        log.start({"seed": 3})
        for one in made:
            log.add(one)
    return made


def test_what_was_noted_is_read(tmp_path: Path) -> None:
    made = filled(tmp_path / "new", 3)
    with Log(tmp_path / "new") as log:
        assert (log.rounds, log.starts, log.cut_off) == (made, [{"seed": 3}], "")
        log.start({"seed": 3})
        log.add(Round(4, "job", (KILL,)))
    with Log(tmp_path / "new") as log:
        assert len(log.rounds) == 4
        assert len(log.starts) == 2
    assert [path.name for path in (tmp_path / "new").iterdir()] == [NAME]


@pytest.mark.parametrize("kept", [1, 30, -2])
def test_a_half_written_last_line_is_cut_off_and_said(tmp_path: Path, kept: int) -> None:
    made = filled(tmp_path, 3)
    text = (tmp_path / NAME).read_bytes()
    last = text[:-1].rindex(b"\n") + 1
    (tmp_path / NAME).write_bytes(text[:last] + text[last:][:kept])
    with Log(tmp_path) as log:
        assert log.rounds == made[:2]
        assert log.cut_off
        log.add(made[2])
    assert (tmp_path / NAME).read_bytes() == text


def test_damage_in_the_middle_is_refused(tmp_path: Path) -> None:
    filled(tmp_path, 2)
    text = (tmp_path / NAME).read_text(encoding="utf-8")
    for bad, why in (
        (text.replace('"round": 1', '"round": 5'), "round 5 where 1 should be"),
        (text.replace('{"round": 1', "{round: 1"), "damaged"),
        (text.replace('"cells"', '"zells"', 1), "damaged"),
    ):
        (tmp_path / NAME).write_text(bad, encoding="utf-8")
        with pytest.raises(UserError, match=rf"fuzz\.jsonl:2: {why}"):
            Log(tmp_path).__enter__()
        assert (tmp_path / NAME).read_text(encoding="utf-8") == bad, "it is left as it is"


def test_one_search_at_a_time(tmp_path: Path) -> None:
    with Log(tmp_path), pytest.raises(Refused, match="another search is under way here"):
        Log(tmp_path).__enter__()
    with Log(tmp_path):
        pass


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="cannot be written to"):
        Log(tmp_path / "file" / "sub").__enter__()


KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
from chaos.fuzz import log
from chaos.fuzz.seen import Round
from chaos.report.coverage import Cell

def half(file, data):
    os_write(file, bytes(data)[: len(data) // 2])
    os.kill(os.getpid(), signal.SIGKILL)

with log.Log(Path(sys.argv[1])) as opened:
    opened.start({"seed": 3})
    opened.add(Round(1, "job", (Cell("process.kill", "backward", "rank 0"),)))
    os_write, log.os.write = os.write, half
    opened.add(Round(2, "job", (Cell("process.kill", "forward", "rank 0"),)))
"""


@pytest.mark.slow
def test_killed_in_the_middle_of_a_write_it_can_be_taken_up(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_WRITING, str(tmp_path)],
        env=environment(),
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / NAME).read_bytes().endswith(b"\n")
    assert (tmp_path / ".lock").exists(), "left by the one that was killed; the kernel has let go of it"
    with Log(tmp_path) as log:
        assert [one.number for one in log.rounds] == [1]
        assert log.cut_off.startswith('{"round": 2')
        log.add(Round(2, "job", (KILL,)))
    assert (tmp_path / NAME).read_bytes().count(b"\n") == 3
    assert os.listdir(tmp_path) == [NAME]
