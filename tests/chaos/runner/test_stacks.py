"""Stacks of processes that wait, are stopped, or are no Python."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.clusters import processes
from chaos.runner import stacks
from injectors import boot, signals

WAITS = """
import sys
def waits_for_word():
    print('ready', flush=True)
    sys.stdin.read()
waits_for_word()
"""


class Waiting:
    """Processes whose stderr goes to a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.err = folder / "stderr.log"
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *line: str, agent: bool = True) -> tuple[int, int]:
        env = boot.environment("", os.environ) if agent else dict(os.environ)
        env.pop(boot.VARIABLE, None)
        with self.err.open("ab") as err:
            process = subprocess.Popen(
                line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, env=env
            )
        self.started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        seen = processes.read(process.pid)
        assert seen is not None
        return seen.pid, seen.start_ticks

    def python(self, agent: bool = True) -> tuple[int, int]:
        return self.start(sys.executable, "-c", WAITS, agent=agent)


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Waiting]:
    made = Waiting(tmp_path)
    yield made
    for process in made.started:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_every_rank_says_where_it_is(waiting: Waiting, tmp_path: Path) -> None:
    ranks = {0: waiting.python(), 1: waiting.python()}
    text = stacks.dump(ranks, lambda rank: waiting.err, tmp_path / "stacks.txt")
    assert (tmp_path / "stacks.txt").read_text() == text
    first, second = text.split("rank 1, ")
    for rank, part in ((0, first), (1, "rank 1, " + second)):
        assert part.startswith(f"rank {rank}, pid {ranks[rank][0]}, state S:\n")
        assert part.count("in waits_for_word") == 1
    assert all(process.poll() is None for process in waiting.started), "nothing was ended"


@pytest.mark.slow
def test_who_cannot_answer_is_said_to(waiting: Waiting, tmp_path: Path) -> None:
    stopped, plain = waiting.python(), waiting.python(agent=False)
    shell = waiting.start("sh", "-c", "echo ready; cat")
    ended = waiting.python()
    waiting.started[-1].kill()
    waiting.started[-1].wait()
    os.kill(stopped[0], signal.SIGSTOP)
    assert signals.wait_state(stopped[0], "T", 5.0) == "T"
    ranks = dict(enumerate((stopped, plain, shell, ended)))
    text = stacks.dump(ranks, lambda rank: waiting.err, tmp_path / "stacks.txt")
    assert [line for line in text.splitlines() if line.startswith("  ")] == [
        "  it is stopped and cannot answer",
        "  it is no Python process that answers",
        "  it is no Python process that answers",
        "  it has ended",
    ]
    assert all(process.poll() is None for process in waiting.started[:-1]), "the signal means nothing to them"
