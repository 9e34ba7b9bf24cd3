"""What gloo forgets when a peer dies in the middle of a message, and how this process gets out of it."""

from __future__ import annotations

import datetime
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import pytest
import torch
import torch.distributed as dist

from recovery.shell.rescue import STILL_S, Look, Rescue, Stillness, Stranded, still

_c10d: Any = torch._C._distributed_c10d
BIG = 64_000_000
"""Floats; far more than the buffers of a socket, and than what arrives before one can be stopped."""
WAIT_S = 30.0

ASLEEP, RUNNING = (True, 7), (False, 7)


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (Look(0, {1: ASLEEP}, {2: 5}), Look(0, {1: ASLEEP}, {2: 9}), True),
        (Look(0, {}, {}), Look(0, {}, {}), True),
        # A connection is open: more may arrive.
        (Look(1, {1: ASLEEP}, {2: 5}), Look(0, {1: ASLEEP}, {2: 9}), False),
        (Look(0, {1: ASLEEP}, {2: 5}), Look(1, {1: ASLEEP}, {2: 9}), False),
        # A worker is at work, has been, or is new.
        (Look(0, {1: ASLEEP}, {2: 5}), Look(0, {1: RUNNING}, {2: 9}), False),
        (Look(0, {1: ASLEEP}, {2: 5}), Look(0, {1: (True, 8)}, {2: 9}), False),
        (Look(0, {1: ASLEEP}, {2: 5}), Look(0, {1: ASLEEP, 3: ASLEEP}, {2: 9}), False),
        # The loop may hold what it has read, and not have had a core since.
        (Look(0, {1: ASLEEP}, {2: 5}), Look(0, {1: ASLEEP}, {2: 5}), False),
    ],
)
def test_when_nothing_can_move_any_more(first: Look, last: Look, expected: bool) -> None:
    assert still(first, last) is expected


OPEN, CLOSED = Look(2, {1: ASLEEP}, {2: 5}), Look(0, {1: ASLEEP}, {2: 9})
SERVED, WOKEN = Look(0, {1: ASLEEP}, {2: 14}), Look(0, {1: (True, 8)}, {2: 19})


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([CLOSED, SERVED], [False, True]),
        # What waits may sleep while its connections are still open: counted from when they are closed.
        ([OPEN, CLOSED, SERVED], [False, False, True]),
        ([OPEN, OPEN, CLOSED, SERVED], [False, False, False, True]),
        ([CLOSED, WOKEN, WOKEN], [False, False, False]),
        ([CLOSED, WOKEN, Look(0, {1: (True, 8)}, {2: 24})], [False, False, True]),
    ],
    ids=["closed", "open first", "open for long", "woken", "woken and at rest"],
)
def test_from_when_stillness_is_counted(looks: list[Look], expected: list[bool]) -> None:
    stillness = Stillness()
    assert [stillness.after(look, 2 * number * STILL_S) for number, look in enumerate(looks)] == expected


def test_stillness_takes_its_time() -> None:
    stillness = Stillness()
    assert not stillness.after(CLOSED, 0.0)
    assert not stillness.after(SERVED, 0.9 * STILL_S)
    assert stillness.after(SERVED, 1.1 * STILL_S)


def form(folder: str, name: str, rank: int) -> Any:
    """A group of two ranks on loopback."""
    options = dist.ProcessGroupGloo._Options()
    options._timeout = datetime.timedelta(seconds=WAIT_S)
    options._devices = [dist.ProcessGroupGloo.create_device(hostname="127.0.0.1")]
    return dist.ProcessGroupGloo(_c10d.FileStore(f"{folder}/{name}", 2), rank, 2, options)


def start(group: Any, what: str, tensor: torch.Tensor, rank: int) -> Any:
    """Rank 1 gives, rank 0 gets; or the other way round."""
    if what.startswith("broadcast"):
        options = _c10d.BroadcastOptions()
        options.rootRank = int(what[-1])
        return group.broadcast([tensor], options)
    sends = what == f"message from {rank}"
    return group.send([tensor], 1 - rank, 3) if sends else group.recv([tensor], 1 - rank, 3)


def peer(folder: str, what: str, pipe: Connection) -> None:
    """Rank 1: takes part in `what`, and is stopped in the middle if it gets."""
    torch.set_num_threads(1)  # a forked child has none of the threads that its parent computes with
    group = form(folder, "first", 1)
    gets = what.endswith("0")
    tensor = torch.zeros(BIG) if gets else torch.ones(BIG)
    pipe.send("formed")
    pipe.recv()
    work = start(group, what, tensor, 1)
    if gets:
        stop_in_the_middle(tensor, os.getpid())
    work.wait(datetime.timedelta(seconds=WAIT_S))


def stop_in_the_middle(tensor: torch.Tensor, pid: int) -> None:
    """Stop rank 1 when a part of the message has arrived."""
    while not tensor[0]:
        pass
    os.kill(pid, signal.SIGSTOP)
    assert not tensor[-1]


@pytest.fixture
def partner(tmp_path: Any) -> Iterator[Callable[[str], tuple[Any, Connection]]]:
    started = []

    def begin(what: str) -> tuple[Any, Connection]:
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("fork").Process(target=peer, args=(str(tmp_path), what, theirs))
        process.start()
        started.append(process)
        return process, ours

    yield begin
    for process in started:
        process.kill()
        process.join()


class Waiter(threading.Thread):
    """Waits in the background and keeps what came of it."""

    def __init__(self, wait: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._wait, self.error = wait, ""
        self.start()

    def run(self) -> None:
        try:
            self._wait()
        except RuntimeError as error:
            self.error = type(error).__name__


@pytest.mark.slow
@pytest.mark.parametrize("what", ["broadcast from 0", "broadcast from 1", "message from 0", "message from 1"])
def test_a_wait_whose_peer_died_in_the_middle_of_a_message_is_given_up(
    what: str, tmp_path: Any, partner: Callable[[str], tuple[Any, Connection]]
) -> None:
    process, pipe = partner(what)
    open_generation = 1
    futures: list[None] = []
    rescue = Rescue(lambda: open_generation, lambda: futures.append(None))
    with rescue.forming(1):
        group = form(str(tmp_path), "first", 0)
    assert pipe.recv() == "formed"
    tensor = torch.zeros(BIG) if what.endswith("1") else torch.ones(BIG)
    pipe.send("go")
    work = start(group, what, tensor, 0)
    if what.endswith("1"):
        stop_in_the_middle(tensor, process.pid)
    else:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    message = what.startswith("message")
    waiter = Waiter(lambda: rescue.wait_message(work) if message else rescue.wait(work))
    process.kill()
    process.join()
    waiter.join(1.5)
    assert waiter.is_alive(), "gloo ends such a wait itself: this module has no reason any more"
    assert not rescue.stranded
    open_generation = 0
    waiter.join(WAIT_S / 3)
    assert waiter.error == Stranded.__name__
    assert futures
    rescue.let_go(group)

    # The process is as good as before.
    second = torch.ones(4)
    with rescue.forming(2):
        open_generation = 2
        alone = dist.ProcessGroupGloo(_c10d.FileStore(f"{tmp_path}/second", 1), 0, 1)
    rescue.wait(alone.allreduce([second], _c10d.AllreduceOptions()))
    assert not rescue.stranded


@pytest.mark.slow
def test_a_wait_that_gloo_ends_is_its_own_error(
    tmp_path: Any, partner: Callable[[str], tuple[Any, Connection]]
) -> None:
    process, pipe = partner("broadcast from 1")
    rescue = Rescue(lambda: 1, lambda: None)
    with rescue.forming(1):
        group = form(str(tmp_path), "first", 0)
    assert pipe.recv() == "formed"
    work = start(group, "broadcast from 1", torch.zeros(BIG), 0)
    waiter = Waiter(lambda: rescue.wait(work))
    # Longer than a slice: the slice's own end is no error.
    waiter.join(0.5)
    assert waiter.is_alive()
    process.kill()
    waiter.join(WAIT_S / 3)
    assert waiter.error == "RuntimeError"


class WorkThatEndsAsItsSliceDoes:
    """Stands in for gloo's: the moment between a time-out and the question after it can't be met at will."""

    def __init__(self, error: str = "") -> None:
        self._error, self._slices = error, 2

    def wait(self, timeout: datetime.timedelta | None = None) -> None:
        if timeout is not None:
            self._slices -= 1
            raise RuntimeError("Operation timed out!")
        if self._error:
            raise RuntimeError(self._error)

    def is_completed(self) -> bool:
        return not self._slices


def test_the_end_of_a_slice_is_no_error_of_a_work_that_ends_just_then() -> None:
    rescue = Rescue(lambda: 1, lambda: None)
    rescue.wait(WorkThatEndsAsItsSliceDoes())
    with pytest.raises(RuntimeError, match="reset by peer"):
        rescue.wait(WorkThatEndsAsItsSliceDoes("Connection reset by peer"))
