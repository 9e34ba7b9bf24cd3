"""Waits that gloo forgets: found by looking from outside, and given up.

When a connection ends, gloo tells every operation that is queued on it, except one whose message is partly
across (measured with torch 2.13: a broadcast or send of more than the socket's buffers, the peer stopped or
killed in the middle; `tests/recovery/shell/test_rescue.py` shows it). That one waits until the group's
time-out. The memory it works on belongs to the training, so such a wait may be given up only when nothing can
touch that memory any more: the generation's sockets are all closed, and the threads that work for gloo have
slept without a break since. Then the operation, its group and its threads are left alone until they are long
over, and this process, which is healthy, goes on to the next generation.
"""

from __future__ import annotations

import datetime
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Protocol

from recovery import events
from recovery.shell.linux import own_sockets
from recovery.shell.rendezvous import GROUP_TIMEOUT

LOOK_S = 0.05
STILL_S = 0.15
"""How long nothing may have moved. The supervisor gives a rank `release_s`, a second, to come out."""
SLICE = datetime.timedelta(seconds=0.2)
KEPT_S = 3 * GROUP_TIMEOUT.total_seconds()
"""After that an operation that was given up has run into its time-out, and its callback has run."""
MOST_KEPT = 16
WORKERS, LOOPS = ("pt_gloo_runloop",), ("gloo_tcp_loop",)
"""Names of the threads that run collectives, and of those that read and write the sockets."""


class Stranded(RuntimeError):
    """A wait that nothing will end: its connection is gone."""


class Waiting(Protocol):
    """How the backend's works are waited for."""

    def wait(self, work: Any) -> None:
        """Until a collective has ended.

        Raises:
            RuntimeError: it failed.
        """

    def wait_message(self, work: Any) -> None:
        """The same for a message from one rank to another, which gloo runs in the waiting thread."""

    def forming(self, generation: int) -> AbstractContextManager[None]:
        """A context in which the groups of a generation are made."""

    def give_up(self, work: Any) -> None:
        """Nobody waits for a work any more, though it has not ended."""

    def let_go(self, group: Any) -> None:
        """Drop a group of a generation that is over, once nothing of it is waited for."""


class Plain:
    """For a backend whose abort ends every wait."""

    def wait(self, work: Any) -> None:
        work.wait()

    def wait_message(self, work: Any) -> None:
        work.wait()

    @contextmanager
    def forming(self, generation: int) -> Iterator[None]:
        yield

    def give_up(self, work: Any) -> None:
        """Never asked for."""

    def let_go(self, group: Any) -> None:
        """The caller's reference was the last."""


@dataclass(frozen=True, slots=True)
class Look:
    """What can be seen of gloo at one moment.

    Attributes:
        sockets: how many connections of the generation are open.
        workers: of each thread that runs operations, whether it sleeps and how often it was switched.
        loops: how often each thread that serves sockets was switched.
    """

    sockets: int
    workers: dict[int, tuple[bool, int]]
    loops: dict[int, int]


def still(first: Look, last: Look) -> bool:
    """Whether nothing can have moved between two looks, and nothing will.

    A loop that was switched meanwhile has been through its events since the sockets were closed: what it had
    read is where it belongs, and whom it could wake is awake.
    """
    asleep = all(sleeps for sleeps, _ in [*first.workers.values(), *last.workers.values()])
    served = all(count > first.loops.get(thread, count) for thread, count in last.loops.items())
    return not first.sockets + last.sockets and asleep and first.workers == last.workers and served


class Stillness:
    """What many looks at one generation say; they may come as late as they like."""

    def __init__(self) -> None:
        self._since: tuple[float, Look] | None = None

    def after(self, look: Look, now: float) -> bool:
        """Whether at this newest look nothing has moved for `STILL_S`, and nothing will."""
        if look.sockets:
            # Not where to count from: what is known from before they were closed says nothing.
            self._since = None
            return False
        if self._since is None or self._since[1].workers != look.workers:
            self._since = now, look
        since, first = self._since
        return now - since >= STILL_S and still(first, look)


class Rescue:
    """Of one process; for gloo.

    Args:
        open_generation: the one that is not abandoned.
        futures: gives up what waits in a future, where nobody can look whether it is stranded.
    """

    def __init__(self, open_generation: Callable[[], int], futures: Callable[[], None]) -> None:
        self._open_generation, self._futures = open_generation, futures
        self._generation = 0
        self._connections: set[int] | None = None
        """The generation's; None while they are made."""
        self._helper: _Helper | None = None
        self._left: list[Any] = []
        """Works of this generation that were given up."""
        self._kept: list[tuple[float, list[Any]]] = []
        self._stillness = Stillness()
        self._lock = threading.Lock()
        self.stranded = False
        """Whether what has not ended by now never will."""
        threading.Thread(target=self._watch, name="recovery-rescue", daemon=True).start()

    # ------------------------------------------------------------------ waiting

    def wait(self, work: Any) -> None:
        while not self._ended_in_a_slice(work):
            self._unless_stranded(work)

    def _ended_in_a_slice(self, work: Any) -> bool:
        try:
            work.wait(SLICE)
            return True
        except RuntimeError:
            if not work.is_completed():
                return False
        # Either its own error, or the slice's end, and it ended a moment later: only the work knows.
        work.wait()
        return True

    def wait_message(self, work: Any) -> None:
        # The time it is given ends the whole connection, so it is waited for elsewhere and without a slice.
        if self._helper is None:
            self._helper = _Helper()
        # Without a time gloo takes the one that the group was formed with, which is for connecting.
        answer = self._helper.ask(lambda: work.wait(GROUP_TIMEOUT))
        while not answer.done.wait(SLICE.total_seconds()):
            if self.stranded:
                self._helper = None
                self._unless_stranded(work)
        if answer.error is not None:
            raise answer.error

    def give_up(self, work: Any) -> None:
        """Keep a work that is stranded."""
        self._left.append(work)

    def _unless_stranded(self, work: Any) -> None:
        if self.stranded:
            self.give_up(work)
            raise Stranded("its connection ended in the middle of a message, and gloo waits on")

    # ------------------------------------------------------------------ groups

    @contextmanager
    def forming(self, generation: int) -> Iterator[None]:
        self._connections = None
        # The thread that looks may just have seen the generation before; without connections it is silent.
        with self._lock:
            self._generation, self.stranded, self._stillness, self._left = generation, False, Stillness(), []
        before = _connections()
        try:
            yield
        finally:
            self._connections = _connections() - before

    def let_go(self, group: Any) -> None:
        now = time.monotonic()
        self._kept = [(since, kept) for since, kept in self._kept if now - since < KEPT_S]
        if self._left:
            # Destroyed, it would wait for its threads, and one of them waits for the work.
            events.emit("group.stranded", generation=self._generation, works=len(self._left))
            self._kept.append((now, [group, *self._left]))

    # ------------------------------------------------------------------ looking

    def _watch(self) -> None:
        while True:
            # That the generation is over is written into shared memory, which has no event to wait for.
            time.sleep(LOOK_S)
            if self._open_generation() == self._generation:
                self._stillness = Stillness()
                continue
            with self._lock:
                if not self.stranded and self._connections is not None and len(self._kept) < MOST_KEPT:
                    look = self._look(self._connections)
                    self.stranded = self._stillness.after(look, time.monotonic())
            if self.stranded:
                self._futures()

    def _look(self, connections: set[int]) -> Look:
        workers, loops = {}, {}
        helper = self._helper.thread.native_id if self._helper is not None else None
        for name in os.listdir("/proc/self/task"):
            try:
                with open(f"/proc/self/task/{name}/status", encoding="utf-8", errors="replace") as file:
                    fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended meanwhile
            thread = int(name)
            switches = int(fields["voluntary_ctxt_switches"]) + int(fields["nonvoluntary_ctxt_switches"])
            if fields["Name"] in WORKERS or thread == helper:
                workers[thread] = (fields["State"].startswith("S"), switches)
            elif fields["Name"] in LOOPS:
                loops[thread] = switches
        return Look(len(_connections() & connections), workers, loops)


class _Answer:
    def __init__(self) -> None:
        self.done = threading.Event()
        self.error: RuntimeError | None = None


class _Helper:
    """A thread that waits in somebody's place, so that the wait can be left."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[tuple[Callable[[], Any], _Answer]] = SimpleQueue()
        self.thread = threading.Thread(target=self._serve, name="recovery-wait", daemon=True)
        self.thread.start()

    def ask(self, wait: Callable[[], Any]) -> _Answer:
        answer = _Answer()
        self._asked.put((wait, answer))
        return answer

    def _serve(self) -> None:
        while True:
            wait, answer = self._asked.get()
            try:
                wait()
            except RuntimeError as error:
                answer.error = error
            answer.done.set()


def _connections() -> set[int]:
    """The inodes of this process's connected or once connected TCP sockets."""
    return {
        inode
        for inode, sock in own_sockets()
        if sock.family in (socket.AF_INET, socket.AF_INET6)
        and not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    }
