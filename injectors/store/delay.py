"""`store.delay`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from injectors import signals
from injectors.fault import Channel, Evidence, Fault, Mechanism, UndoRecord, Victim, duration, parameter
from injectors.process.ending import PIDFD
from injectors.store import helper, wire
from injectors.store.host import StoreHost, daemon_thread, find
from injectors.store.hosted import host_is_gone, host_of, told

# No fault lasts longer, whatever a suite leaves out.
LONGEST_S = 3600.0
# Late is at least this part of what was asked for: of a held answer, and of one that met a cycle anywhere.
_LATE = {"answers": 0.9, "cycle": 0.4}


@dataclass(frozen=True, kw_only=True)
class StoreDelay(Fault):
    """Answer every request to the TCPStore of a rank late by a set time.

    Where tracing is allowed, the one thread that answers clients is held at each write to a socket: the rest
    of the host goes on, and requests queue behind each other as at an overloaded coordinator. Else the whole
    host is stopped and continued in turn, and a request is late by anything up to the set time.
    Proof: a request of the tool's own, timed before and during.
    Undo: the helper that holds the answers ends, and so it does when the tool is gone.
    """

    id: ClassVar[str] = "store.delay"
    has_undo: ClassVar[bool] = True
    mechanisms: ClassVar[tuple[Mechanism, ...]] = (
        Mechanism(
            name="ptrace of the store's thread",
            fidelity="every answer late by exactly the set time, one after the other; nothing else is slowed",
            probe=helper.probe,
        ),
        Mechanism(
            name="stop and continue of the host",
            fidelity="answers late by up to the set time; everything else in the host is slowed too",
            probe=PIDFD.probe,
        ),
    )
    stands_for: ClassVar[str] = (
        "a coordinator overloaded by thousands of clients, short of processor time, or far away"
    )
    does_not_certify: ClassVar[str] = (
        "a slow network, in which requests of several clients are late side by side (net.delay)"
    )

    delay_s: float = parameter("how late each answer is", default=0.2, unit="s", minimum=0.001, maximum=30.0)
    duration_s: float | None = duration("how long it lasts; without it, until the scenario heals")

    def undo_record(self, victim: Victim) -> UndoRecord:
        host = find(victim)
        data = {**host.as_dict(), "run": host.run, "tag": _tag(victim), "mode": _mode(host)}
        return UndoRecord("store.delay", host.pid, host.start_ticks, victim.fault, data)

    def inject(self, victim: Victim, channel: Channel | None) -> Evidence:
        host, why_not = host_of(victim)
        if host is None:
            return Evidence(why_not, False)
        mode, thread = _mode(host), _thread(host)
        try:
            before_s = _asked(host, timeout_s=5.0)
        except OSError as error:
            return told(host, victim, Evidence(f"its store could not be asked: {error}", False))
        order = {
            "mode": mode,
            "host": host.pid,
            "port": host.port,
            "thread": thread,
            "delay_s": self.delay_s,
            "longest_s": self.duration_s or LONGEST_S,
        }
        problem = helper.start(host.run, _tag(victim), order)
        data = {"mode": mode, "thread": thread, "before_s": before_s, "delay_s": self.delay_s}
        if problem is not None:
            return told(host, victim, Evidence(problem, False, data=data))
        way = self.mechanisms[0 if mode == "answers" else 1]
        what = f"answers are late by {self.delay_s:g} s, by {way.name} ({way.fidelity})"
        return told(host, victim, Evidence(what, True, data={**data, "mechanism": way.name}))

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        if fired is None or "mode" not in fired.data:
            return Evidence("nothing holds the answers of a store", False)
        data = fired.data
        seen = [0.0]
        wanted_s = _LATE[data["mode"]] * self.delay_s
        try:
            # In a cycle a request may be lucky, and so may a few in a row; not all of several turns.
            limit = time.monotonic() + 4 * self.delay_s
            while max(seen) < wanted_s and time.monotonic() < limit:
                calls = [("slowest",)]
                timeout_s = 5.0 + 8 * self.delay_s
                seen += wire.ask(data["host"], data["address"], data["port"], calls, timeout_s)
        except OSError as error:
            return Evidence(f"a request of our own was not answered: {error}", False)
        late_s, before_s = max(seen), data["before_s"]
        what = f"a request of our own took {1000 * late_s:.1f} ms, {1000 * before_s:.1f} ms before"
        return Evidence(what, late_s >= wanted_s > before_s, data={"late_s": late_s, "before_s": before_s})

    def undo(self, record: UndoRecord, release: Callable[[str], bool] | None = None) -> Evidence:
        said = helper.stop(str(record.data["run"]), str(record.data["tag"]))
        done = super().undo(record)
        if said.get("held") is None:
            return done
        what = f"{done.what}; {said['held']} answers were held, or stops made"
        return Evidence(what, done.proven, data={**done.data, **said})

    def verify_undone(self, record: UndoRecord) -> Evidence:
        if host_is_gone(record):
            return Evidence("the host is gone, and its delay with it", True)
        data = record.data
        try:
            traced, stopped = helper.traced(record.pid), signals.state(record.pid) in ("T", "t")
            if traced or stopped:
                return Evidence(f"pid {record.pid}: threads traced: {traced}, stopped: {stopped}", False)
            (took_s,) = wire.ask(record.pid, data["address"], data["port"], [("ping",)])
        except OSError as error:
            # The host may end at this moment, and its store before it.
            gone = host_is_gone(record)
            return Evidence(f"a request of our own was not answered: {error}", gone)
        what = f"no thread is traced, and a request of our own took {1000 * took_s:.1f} ms"
        return Evidence(what, True, data={"took_s": took_s})


def _tag(victim: Victim) -> str:
    return f"store.delay/{victim.fault}/{victim.pid}.{victim.start_ticks}"


def _mode(host: StoreHost) -> str:
    thread = _thread(host)
    return "answers" if thread is not None and helper.may_trace(thread) is None else "cycle"


def _thread(host: StoreHost) -> int | None:
    """The thread that answers; it may be busy when it is looked for."""
    limit = time.monotonic() + 1.0
    while (thread := daemon_thread(host)) is None and time.monotonic() < limit:
        time.sleep(0.002)
    return thread


def _asked(host: StoreHost, timeout_s: float) -> float:
    """How long a request of our own takes, seconds.

    Raises:
        OSError: it is not answered.
    """
    (took_s,) = wire.ask(host.pid, host.address, host.port, [("ping",)], timeout_s)
    return float(took_s)
