"""The supervisor of a node other than the coordinator's: it acts on the coordinator's word, and on no one's
when it can't hear it.

Its lease is the rule: cut off from the coordinator it ends all its processes before the lease is over, and
then asks to be taken back as a node on which nothing runs. A connection that only broke is made anew, and
nothing that was said is lost.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from recovery import events
from recovery.core import messages as m
from recovery.core.config import Config
from recovery.core.lease import Lease
from recovery.shell import page as words
from recovery.shell import wire
from recovery.shell.hands import Hands
from recovery.shell.line import Conversation, Line, LineBroken
from recovery.shell.linux import Ends, lease_clock
from recovery.shell.page import Page
from recovery.shell.probing import Address, Prober
from recovery.shell.processes import Process
from recovery.shell.reactor import Reactor
from recovery.shell.worker import Program

TURN_S = 0.02
SAMPLE_S = 0.05
"""How often the progress of this node's ranks is told."""
RETRY_S, LONGEST_RETRY_S = 0.05, 1.0
GONE_S = 3.0
"""A coordinator whose host says for so long that nobody listens there is not only slow."""
CONNECT_S = 3.0
INTERRUPTED = 130


class Outpost:
    """Runs one node's part of a job to its end: `run()` returns the job's exit code.

    Args:
        coordinator: where the coordinator listens.
        facts: what must be equal on all nodes.
        patience_s: how long to look for a coordinator that can't be reached.
    """

    def __init__(
        self,
        node: int,
        coordinator: Address,
        secret: bytes,
        facts: Mapping[str, Any],
        world_size: int,
        program: Callable[[str], Program],
        *,
        fork: bool,
        patience_s: float,
    ) -> None:
        self.node, self._coordinator, self._secret, self._facts = node, coordinator, secret, facts
        self._world_size, self._make_program, self._fork = world_size, program, fork
        self._patience_s = patience_s
        self._reactor = Reactor()
        self._hands: Hands | None = None
        self._prober: Prober | None = None
        self._lease: Lease | None = None
        self._line: Line | None = None
        self._talk = Conversation()
        self._session = self._former = 0
        self._job = ""
        self._code: int | None = None
        self._interrupted: int | None = None
        self._leaving = self._resigned = False
        self._retry_s, self._next_try, self._give_up_line = RETRY_S, 0.0, 0.0
        self._lost_at = time.monotonic()
        self._next_sample = self._greeted_at = 0.0
        self._refused = ""
        self._closed_since: float | None = None

    # ------------------------------------------------------------------ the loop

    def run(self) -> int:
        """Stay until the job has ended, or its coordinator is gone for too long."""
        os.environ["RECOVERY_ROLE"] = "supervisor"
        self._reactor.watch_children(self._children_changed)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_interrupt)
        try:
            while self._code is None:
                self._turn()
        finally:
            if self._hands is not None:
                self._hands.processes.kill_all()
            self._hang_up()
        return self._code

    def _on_interrupt(self, number: int, _: Any) -> None:
        self._interrupted = number

    def _children_changed(self) -> None:
        if self._hands is not None:
            self._hands.children_changed()

    def _turn(self) -> None:
        if self._hands is not None:
            self._hands.watch_template()
        self._reactor.turn(TURN_S)
        now = time.monotonic()
        if self._interrupted is not None:
            self._resign()
            return
        if self._line is None and now >= self._next_try:
            self._connect(now)
        if self._line is not None and not self._connected and now >= self._give_up_line:
            self._hang_up()
        if self._lease is not None and self._hands is not None:
            if self._lease.over(lease_clock()):
                self._fence_myself()
                return
            number = self._lease.beat(lease_clock())
            if number is not None:
                self._say(op="beat", number=number)
            self._hands.page.lease_until = self._lease.until
            if now >= self._next_sample:
                self._next_sample = now + SAMPLE_S
                self._tell_progress(self._hands, now)
        elif now - self._lost_at > self._patience_s:
            why = f": {self._refused}" if self._refused else ""
            self._stop(1, f"no coordinator at {self._coordinator[0]}:{self._coordinator[1]}{why}")
        elif self._job and self._closed_since is not None and now - self._closed_since > GONE_S:
            self._stop(
                1, "the coordinator has ended while this node had no lease; see its node for the job's end"
            )
        if self._prober is not None:
            self._prober.tick()

    def _stop(self, code: int, reason: str) -> None:
        self._code = code
        if code:
            print(f"recovery: node {self.node}: {reason}", file=sys.stderr, flush=True)

    def _resign(self) -> None:
        """Asked to end: a node that is about to be taken away. The others need not wait for its lease."""
        assert self._interrupted is not None
        name = signal.Signals(self._interrupted).name
        # From here on it takes no orders, and its processes' ends are told in one word.
        self._resigned = True
        ended = self._hands is None or self._hands.end_all(name)
        if self._session and ended:
            self._say(op="left", reason=f"it was asked to end ({name})")
            deadline = time.monotonic() + CONNECT_S
            # The coordinator hangs up when it has heard.
            while self._line is not None and time.monotonic() < deadline:
                self._reactor.turn(TURN_S)
        self._stop(INTERRUPTED, f"asked to end ({name})")

    def _fence_myself(self) -> None:
        """The lease is about to be over: end every process, and come back as a node where nothing runs."""
        assert self._hands is not None
        assert self._lease is not None
        silent_s = lease_clock() - self._lease.until + self._lease.config.lease_s
        self._leave_session()
        clean = self._hands.end_all("the lease of this node is over")
        events.emit("lease.expired", silent_s=round(silent_s, 3))
        print(
            f"recovery: node {self.node}: no word from the coordinator for {silent_s:.1f} s,"
            " its processes were ended",
            file=sys.stderr,
            flush=True,
        )
        if not clean:
            self._stop(1, "a process can't be ended, so this node can't take part any more")

    def _leave_session(self) -> None:
        self._hang_up()
        # The door is told of it only after everything has been ended, see `_fence_myself`.
        self._lease, self._talk = None, Conversation()
        self._former, self._session = self._session, 0
        self._lost_at = time.monotonic()

    # ------------------------------------------------------------------ the connection

    @property
    def _connected(self) -> bool:
        return self._line is not None and self._talk.line is self._line

    def _connect(self, now: float) -> None:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.connect_ex(self._coordinator)
        line = Line(sock, self._secret, coordinator=False)
        self._line, self._give_up_line = line, now + CONNECT_S
        self._reactor.watch(line.fileno(), lambda: self._greet(line), writing=True)

    def _hang_up(self) -> None:
        if self._line is not None:
            self._reactor.drop(self._line.fileno())
            self._line.close()
        self._line = self._talk.line = None
        self._next_try = time.monotonic() + self._retry_s
        self._retry_s = min(2 * self._retry_s, LONGEST_RETRY_S)

    def _greet(self, line: Line) -> None:
        was_open = line.open
        try:
            error = line.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error != errno.ECONNREFUSED:
                self._closed_since = None
            elif self._closed_since is None:
                self._closed_since = time.monotonic()
            if error:
                raise LineBroken(os.strerror(error))
            line.flush()
            messages = line.receive()
            if line.open and not was_open:
                self._begin_prober(line)
                assert self._prober is not None
                self._greeted_at = lease_clock()
                line.send(
                    hello={
                        "node": self.node,
                        "resumes": self._session,
                        "former": self._former,
                        "received": self._talk.received,
                        "job": self._job,
                        "facts": dict(self._facts),
                        "probe": list(self._prober.address),
                    }
                )
        except LineBroken as error:
            self._refused = str(error)
            self._hang_up()
            return
        if messages:
            self._answered(line, messages[0])
            # What followed the welcome has come with it.
            for frame in messages[1:]:
                self._take(frame)
        elif self._line is line:
            self._reactor.watch(line.fileno(), lambda: self._greet(line), writing=line.wants_to_write)

    def _begin_prober(self, line: Line) -> None:
        """Everything of this node listens where the coordinator is reached from."""
        if self._prober is None:
            self._prober = Prober(self._reactor, self._secret, line.sock.getsockname()[0])

    def _answered(self, line: Line, answer: dict[str, Any]) -> None:
        if "refused" in answer:
            self._refused = str(answer["refused"])
            if answer["final"]:
                self._stop(64, f"the coordinator refuses this node: {self._refused}")
                return
            if self._session and self._hands is not None:
                self._fence_myself()
            else:
                self._hang_up()
            return
        resumed = self._session == int(answer["session"])
        self._job, self._session = str(answer["job"]), int(answer["session"])
        self._retry_s = RETRY_S
        self._talk.attach(line, int(answer["received"]))
        self._listen(line)
        if not resumed:
            self._lease = Lease(Config(**answer["welcome"]), self._greeted_at)
            self._begin(line.sock.getsockname()[0])
            events.emit("node.session", session=self._session)

    def _begin(self, address: str) -> None:
        if self._hands is not None:
            return
        self._hands = Hands(
            self._reactor,
            Page(self._world_size),
            self._make_program(address),
            fork=self._fork,
            report=self._report,
            ask_store=self._ask_store,
            forget_store=lambda process: None,  # the coordinator forgets it with the process
            leaving=lambda: self._leaving,
        )
        self._hands.ready()

    def _listen(self, line: Line) -> None:
        """Hear what comes, and send the rest of what is queued."""
        self._reactor.watch(line.fileno(), lambda: self._read(line), writing=line.wants_to_write)

    def _read(self, line: Line) -> None:
        if self._line is not line:
            return
        try:
            line.flush()
            frames = line.receive()
        except LineBroken:
            self._hang_up()
            return
        self._listen(line)
        for frame in frames:
            self._take(frame)

    def _take(self, frame: dict[str, Any]) -> None:
        try:
            message = self._talk.take(frame)
        except LineBroken:
            self._hang_up()
            return
        if message is not None and self._session and not self._resigned:
            self._told(message)

    def _say(self, **message: Any) -> None:
        line = self._line if self._connected else None
        try:
            self._talk.send(**message)
        except LineBroken:
            self._hang_up()
            return
        if line is not None:
            self._listen(line)

    # ------------------------------------------------------------------ what is said

    def _report(self, event: m.Event) -> None:
        if self._session and not self._resigned:
            self._say(op="event", **wire.packed(event, time.monotonic()))

    def _ask_store(self, process: Process, request: dict[str, Any]) -> None:
        if self._session:
            self._say(op="store", proc=process.proc, request=request)

    def _tell_progress(self, hands: Hands, now: float) -> None:
        samples = []
        for process in hands.processes.by_proc.values():
            if process.rank is None:
                continue
            slot = hands.page.slots[process.rank]
            if slot.ints[words.PID] == process.pid:
                starved_s = hands.starved_s(process.proc, slot)
                samples.append({"rank": process.rank, "proc": process.proc, **slot.sample(now, starved_s)})
        if samples:
            self._say(op="progress", samples=samples)

    # ------------------------------------------------------------------ what is heard

    def _told(self, message: dict[str, Any]) -> None:
        hands = self._hands
        assert hands is not None
        assert self._lease is not None
        match message["op"]:
            case "grant":
                self._lease.granted(int(message["number"]))
            case "start":
                hands.start(int(message["proc"]), message["rank"])
            case "promote":
                hands.promote(int(message["proc"]), int(message["rank"]))
            case "fence":
                hands.fence(int(message["proc"]), str(message["reason"]))
            case "release":
                ends = Ends.from_json(message["ends"])
                hands.release(int(message["proc"]), int(message["generation"]), ends)
            case "open":
                hands.open(message["opening"], message["procs"])
            case "answer":
                hands.answer_store(int(message["proc"]), message["fields"])
            case "probe":
                self._probe(int(message["number"]), message["peers"])
            case "leave":
                self._leaving = True
                hands.leave()
            case "end":
                self._stop(int(message["code"]), str(message["reason"]))
            case other:
                raise ValueError(f"unknown order {other!r}")

    def _probe(self, number: int, peers: Mapping[str, Any]) -> None:
        assert self._prober is not None
        wanted = {int(peer): (str(host), int(port)) for peer, (host, port) in peers.items()}

        def done(reached: frozenset[int]) -> None:
            self._say(op="reached", probe=number, peers=sorted(reached))

        self._prober.ask(wanted, done)
