"""Shared memory that nobody uses any more: whose it is."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from chaos.clusters import processes
from chaos.undo import shm


@pytest.fixture
def entry() -> Iterator[str]:
    """One that names a process which is long gone."""
    name = f"torch_4194305_{secrets.token_hex(4)}"
    with open(f"{shm.FOLDER}/{name}", "w") as file:
        file.write("left")
    yield name
    shm.remove([name])


@pytest.fixture
def neighbour() -> Iterator[str]:
    """A process of another run."""
    run = f"neighbour-{secrets.token_hex(4)}"
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1, env={processes.MARKER: run})
    limit = time.monotonic() + 20
    while not processes.marked(run):
        assert time.monotonic() < limit
        time.sleep(0.005)
    yield run
    process.communicate()


def test_what_names_a_process_of_the_run_is_the_runs_whoever_else_is_there(
    entry: str, neighbour: str
) -> None:
    assert entry in shm.left((), time.time() - 5, "mine", {4194305})


def test_beside_another_run_nothing_else_is(entry: str, neighbour: str) -> None:
    assert entry not in shm.left((), time.time() - 5, "mine", {1})


def test_what_was_there_before_or_is_in_use_is_not(entry: str) -> None:
    assert entry not in shm.left({entry}, time.time() - 5, "mine", {4194305})
    fd = os.open(f"{shm.FOLDER}/{entry}", os.O_RDONLY)
    try:
        assert entry not in shm.left((), time.time() - 5, "mine", {4194305})
    finally:
        os.close(fd)


def test_a_semaphore_that_only_its_maker_uses_is_not() -> None:
    """Python's, as a pool of spawned processes has it. Its maker maps it under a name that is gone."""
    before, since = shm.entries(), time.time()
    lock = multiprocessing.get_context("spawn").Lock()
    (made,) = (name for name in shm.entries() - before if name.startswith("sem.mp-"))
    assert made not in shm.left(before, since, "mine")
    del lock


def test_another_run_is_told_from_this_one(neighbour: str) -> None:
    assert processes.other_runs("mine")


@pytest.mark.parametrize(
    ("name", "pid"), [("torch_12_77_0", 12), ("nccl-34-x", 34), ("psm_a1b2", None), ("torch_x_1", None)]
)
def test_the_maker_is_in_the_name_or_not(name: str, pid: int | None) -> None:
    assert shm.maker(name) == pid
