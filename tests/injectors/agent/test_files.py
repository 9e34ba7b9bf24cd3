"""Which files a rule means, and that nothing of us is left when the last rule has gone."""

from __future__ import annotations

import builtins
import io
import os
from pathlib import Path
from typing import Any

import pytest

from injectors.agent.files import REAL_OPEN, FaultyFile, Files, Rule, Write, matches
from injectors.agent.replacing import Replacing


@pytest.mark.parametrize(
    ("path", "pattern", "fits"),
    [
        ("/work/checkpoints/step-1.pt", "/work/checkpoints/*", True),
        ("/work/checkpoints/deep/step-1.pt", "/work/checkpoints/*", False),
        ("/work/checkpoints/deep/step-1.pt", "/work/checkpoints/**/*.pt", True),
        ("/work/checkpoints/step-1.pt", "/work/checkpoints/**/*.pt", True),
        ("/work/checkpoints/step-1.pt", "/work/checkpoints/step-1.pt", True),
        ("/other/checkpoints/step-1.pt", "/work/checkpoints/*", False),
        ("/work/checkpoints", "/work/checkpoints/*", False),
        ("/work/Step-1.pt", "/work/step-?.pt", False),
    ],
)
def test_patterns_go_part_by_part(path: str, pattern: str, fits: bool) -> None:
    assert matches(path, pattern) is fits


class Counting(Rule):
    """Lets everything through, and counts."""

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        self.asked: list[tuple[int, bytes]] = []

    def write(self, asked: Write) -> int:
        self.asked.append((asked.at, bytes(asked.data)))
        return asked.put(asked.data)


@pytest.fixture
def files(tmp_path: Path) -> Any:
    found = Files()
    rule = Counting(f"{tmp_path}/*.pt")
    found.add(rule)
    yield found, rule
    found.remove(rule)


def test_files_of_all_kinds_are_what_open_gives(files: Any, tmp_path: Path) -> None:
    found, _ = files
    path = tmp_path / "a.pt"
    for mode, kind in (("wb", io.BufferedWriter), ("r+b", io.BufferedRandom), ("w", io.TextIOWrapper)):
        with REAL_OPEN(path, mode) as made, found.open(path, mode) as ours:
            assert type(made) is type(ours) is kind
            assert made.mode == ours.mode
            assert made.name == ours.name
    with open(path, "wb", buffering=0) as raw:
        assert isinstance(raw, FaultyFile)
    with pytest.raises(ValueError, match="unbuffered text"):
        found.open(path, "w", buffering=0)


def test_positions_of_writes(files: Any, tmp_path: Path) -> None:
    _, rule = files
    path = tmp_path / "a.pt"
    with open(path, "wb", buffering=0) as file:
        file.write(b"one")
        file.write(b"two")
    with path.open("ab") as file:
        file.write(b"three")
    fd = os.open(path, os.O_WRONLY)
    os.write(fd, b"O")
    os.writev(fd, [b"N", b"E"])
    os.pwrite(fd, b"T", 3)
    os.close(fd)
    assert path.read_bytes() == b"ONETwothree"
    assert rule.asked == [(0, b"one"), (3, b"two"), (6, b"three"), (0, b"O"), (1, b"NE"), (3, b"T")]


def test_other_files_and_reads_are_not_met(files: Any, tmp_path: Path) -> None:
    _, rule = files
    (tmp_path / "other").write_bytes(b"x")
    (tmp_path / "other").read_bytes()
    assert rule.asked == []


def test_a_forked_child_has_no_rule(files: Any, tmp_path: Path) -> None:
    _, rule = files
    path = tmp_path / "a.pt"
    child = os.fork()
    if child == 0:
        path.write_bytes(b"x")
        os._exit(len(rule.asked))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert path.read_bytes() == b"x"


def test_a_file_that_outlives_its_rule_is_a_plain_file(tmp_path: Path) -> None:
    found, rule = Files(), Counting(f"{tmp_path}/*")
    found.add(rule)
    file = found.open(tmp_path / "a", "wb", buffering=0)
    found.remove(rule)
    file.write(b"x")
    file.close()
    assert rule.asked == []
    assert (tmp_path / "a").read_bytes() == b"x"


def test_nothing_is_left_of_it() -> None:
    before = (builtins.open, io.open, os.write, os.fsync, os.sendfile)
    found, first, second = Files(), Counting("/a"), Counting("/b")
    found.add(first)
    found.add(second)
    assert builtins.open is not before[0]
    found.remove(first)
    assert builtins.open is not before[0]
    found.remove(second)
    assert (builtins.open, io.open, os.write, os.fsync, os.sendfile) == before


def test_what_someone_else_has_replaced_since_stays() -> None:
    names: dict[str, Any] = {"a": 1, "b": 2}
    replacing = Replacing()
    replacing.put(names, "a", 10)
    replacing.put(names, "b", 20)
    names["b"] = 200
    assert replacing.restore() == 2
    assert names == {"a": 1, "b": 200}
