"""The engine's end of the agents' lines: who waits where, and what is to happen there.

One thread a connection, so that a callback that takes long for one victim delays no other. The socket
is SEQPACKET (a message stays a message), mode 0600 in a folder of the user's own, and the kernel says
who is at the other end: the pid comes from SO_PEERCRED, translated into the engine's pid namespace, and
is never taken from a message.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from injectors import signals
from injectors.fault import Evidence, FaultError, Victim

MAX_MESSAGE = 65536


@dataclass(frozen=True)
class Reached:
    """A process is blocked at the point of a fault and waits for an answer."""

    fault: str
    pid: int
    start_ticks: int
    rank: int | None
    generation: int | None
    step: int | None
    phase: str | None
    event: str | None
    fields: Mapping[str, Any]
    """The event's own fields; {} at other points. `fresh`: the process took over a rank after the start."""
    collective: Mapping[str, Any] | None
    channel: Line
    """Pass it to `Fault.inject`."""

    def victim(self) -> Victim:
        """The process that waits, as a victim."""
        return Victim(
            pid=self.pid,
            start_ticks=self.start_ticks,
            rank=self.rank,
            generation=self.generation,
            step=self.step,
            fault=self.fault,
        )


@dataclass(frozen=True)
class Report:
    """Anything an agent says on its own account.

    op: hello (a process with this rank is there), fired, undone, failed (the act could not be done),
    gone (the connection ended), error (a callback of ours raised; `data` says what).
    """

    op: str
    pid: int
    start_ticks: int
    rank: int | None
    fault: str | None = None
    evidence: Evidence | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


OnReached = Callable[[Reached], str]
OnReport = Callable[[Report], None]


class AgentServer:
    """Accepts agents and hands what they reach and report to two callbacks.

    Args:
        socket_path: at most 107 bytes; its folder is made with mode 0700 if it is not there.
        on_reached: called in the connection's thread while the process waits; returns "go" or "skip".
            It may take its time, and may let the agent act by `reached.channel.act()`.
        on_report: called in the connection's thread.
    """

    def __init__(
        self, socket_path: str | os.PathLike[str], on_reached: OnReached, on_report: OnReport
    ) -> None:
        self.socket_path = Path(socket_path)
        self._on_reached = on_reached
        self._on_report = on_report
        self._listener: socket.socket | None = None
        self._lines: set[Line] = set()
        self._acting: dict[str, Line] = {}
        self._lock = threading.Lock()

    def start(self) -> None:
        """Listen.

        Raises:
            FaultError: the path is too long, or its folder can be entered by others.
        """
        if len(os.fsencode(self.socket_path)) > 107:
            raise FaultError(f"{self.socket_path}: too long for a socket\n  mend: at most 107 bytes")
        folder = self.socket_path.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o077:
            raise FaultError(f"{folder}: others may enter it\n  mend: chmod 700 {folder}")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        listener.bind(str(self.socket_path))
        os.chmod(self.socket_path, 0o600)
        listener.listen(256)
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), name="agent-server", daemon=True).start()

    def stop(self) -> None:
        """Close every line; agents that wait let go and act on nothing. May be repeated."""
        listener, self._listener = self._listener, None
        if listener is not None:
            # close() alone does not wake a thread that is blocked in accept().
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            self.socket_path.unlink(missing_ok=True)
        with self._lock:
            lines = list(self._lines)
        for line in lines:
            line.close()

    def settle(self, timeout_s: float = 10.0) -> bool:
        """Wait until no callback is under way and all that ended processes had said is handed on.

        To be called when a target has ended and before its faults are summed up: the last fault may have
        ended the target while its proof was still being looked for. False if that took too long.
        """
        limit = time.monotonic() + timeout_s
        while time.monotonic() < limit:
            with self._lock:
                lines = list(self._lines)
            if not any(line.busy or not signals.is_alive(line.pid, line.start_ticks) for line in lines):
                return True
            time.sleep(0.002)
        return False

    @property
    def live(self) -> dict[int, int]:
        """Rank to pid of the agents that are connected and hold a rank."""
        with self._lock:
            return {line.rank: line.pid for line in self._lines if line.rank is not None}

    def victim(self, rank: int) -> Victim | None:
        """The connected process that holds a rank; None if no agent of that rank is connected."""
        with self._lock:
            for line in self._lines:
                if line.rank == rank:
                    return Victim(pid=line.pid, start_ticks=line.start_ticks, rank=rank)
        return None

    def send_undo(self, fault_id: str) -> bool:
        """Tell the agent that holds this fault to end it now. False if none does any more."""
        with self._lock:
            line = self._acting.get(fault_id)
        return line is not None and line.send({"op": "undo", "fault": fault_id})

    def send_step(self, step: int, rank: int | None = None) -> None:
        """Tell agents the step (step rule stdout), all of them or one rank's."""
        with self._lock:
            lines = [line for line in self._lines if rank is None or line.rank == rank]
        for line in lines:
            line.send({"op": "step", "step": step})

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            line = self._admit(peer)
            if line is not None:
                threading.Thread(target=self._serve, args=(line,), name="agent-line", daemon=True).start()

    def _admit(self, peer: socket.socket) -> Line | None:
        size = struct.calcsize("3i")
        pid, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        ticks = signals.start_ticks(pid) if pid > 0 else None
        if ticks is None or uid != os.getuid():
            peer.close()
            return None
        line = Line(peer, pid, ticks)
        with self._lock:
            # Accepted while `stop` ran: nobody would close it, and its agent would wait out its time.
            if self._listener is None:
                line.close()
                return None
            self._lines.add(line)
        return line

    def _serve(self, line: Line) -> None:
        while (message := line.receive()) is not None:
            line.busy = True
            try:
                self._handle(line, message)
            except Exception as error:
                # A victim must not stay blocked because a callback of ours failed; and it must not be silent.
                self._on_report(line.report("error", message.get("fault"), data={"error": repr(error)}))
                line.answer("skip")
            line.busy = False
        self._on_report(line.report("gone"))
        with self._lock:
            self._lines.discard(line)
            for fault in [fault for fault, holder in self._acting.items() if holder is line]:
                del self._acting[fault]
        line.close()

    def _handle(self, line: Line, message: dict[str, Any]) -> None:
        op, fault = message.get("op"), message.get("fault")
        if op == "reached":
            line.rank = message.get("rank", line.rank)
            with self._lock:
                self._acting[str(fault)] = line
            line.waiting_for = str(fault)
            answer = self._on_reached(_reached(line, message))
            line.answer(answer)
            for late in line.take_late():
                self._on_report(late)
        elif op == "holding":
            with self._lock:
                self._acting[str(fault)] = line
        elif op == "hello":
            line.rank = message.get("rank")
            self._on_report(line.report("hello", data=message))
        else:
            self._on_report(report_of(line, message))


class Line:
    """The connection to one agent; while the agent is blocked it is the fault's channel."""

    def __init__(self, peer: socket.socket, pid: int, start_ticks: int) -> None:
        self.pid = pid
        self.start_ticks = start_ticks
        self.rank: int | None = None
        self.waiting_for: str | None = None
        self.busy = False
        """A message of this line is being handled."""
        self._socket = peer
        self._late: list[Report] = []

    def act(self, timeout_s: float = 10.0) -> Evidence:
        """Let the blocked agent act; see `Channel.act`."""
        fault = self.waiting_for
        if not self.answer("go"):
            return Evidence("the agent is gone", False, "agent")
        self._socket.settimeout(timeout_s)
        try:
            while True:
                message = self.receive()
                if message is None:
                    return Evidence(f"the agent said nothing within {timeout_s} s", False, "agent")
                report = report_of(self, message)
                self._late.append(report)
                if report.op in ("fired", "failed") and report.fault == fault and report.evidence:
                    return report.evidence
        finally:
            self._settle()

    def answer(self, word: str) -> bool:
        """Answer the agent once; a second answer to the same wait is dropped."""
        fault, self.waiting_for = self.waiting_for, None
        return fault is not None and self.send({"op": word if word == "go" else "skip", "fault": fault})

    def send(self, message: Mapping[str, Any]) -> bool:
        """Send without ever blocking on a victim that does not read. False if it did not go out."""
        try:
            self._socket.send(json.dumps(message).encode(), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            return True
        except OSError:
            return False

    def receive(self) -> dict[str, Any] | None:
        """The next message, or None when the line has ended, the time is up or the peer talks nonsense."""
        try:
            raw = self._socket.recv(MAX_MESSAGE)
            message = json.loads(raw) if raw else None
        except (OSError, ValueError):
            return None
        return message if isinstance(message, dict) else None

    def report(self, op: str, fault: str | None = None, data: Mapping[str, Any] | None = None) -> Report:
        """A report about this line."""
        return Report(op, self.pid, self.start_ticks, self.rank, fault, None, data or {})

    def take_late(self) -> list[Report]:
        """Reports that came while `act` was reading; handed to the callback after it."""
        late, self._late = self._late, []
        return late

    def close(self) -> None:
        """End the line; a thread that is blocked in it wakes."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()

    def _settle(self) -> None:
        try:
            self._socket.settimeout(None)
        except OSError:
            pass


def report_of(line: Line, message: Mapping[str, Any]) -> Report:
    """The report that a message carries."""
    found = message.get("evidence") or {}
    evidence = Evidence(
        str(found.get("what", message.get("op"))),
        bool(found.get("proven", False)),
        "agent",
        found.get("data", {}),
    )
    return Report(
        str(message.get("op")), line.pid, line.start_ticks, line.rank, message.get("fault"), evidence, message
    )


def _reached(line: Line, message: Mapping[str, Any]) -> Reached:
    return Reached(
        fault=str(message["fault"]),
        pid=line.pid,
        start_ticks=line.start_ticks,
        rank=message.get("rank"),
        generation=message.get("generation"),
        step=message.get("step"),
        phase=message.get("phase"),
        event=message.get("event"),
        fields=message.get("fields") or {},
        collective=message.get("collective"),
        channel=line,
    )
