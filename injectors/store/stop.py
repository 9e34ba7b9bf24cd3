"""`store.stop`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from injectors import undo
from injectors.fault import Channel, Evidence, Fault, Mechanism, UndoRecord, Victim, duration
from injectors.process.ending import PIDFD
from injectors.process.stop import ProcessStop
from injectors.store.host import find
from injectors.store.hosted import as_victim, host_in, host_of, told


@dataclass(frozen=True, kw_only=True)
class StoreStop(Fault):
    """Freeze the process that hosts the TCPStore of a rank: it accepts connections and answers nothing.

    Proof: the kernel reports the host in process state T.
    Undo: SIGCONT; repeatable, harmless if the host is gone.
    """

    id: ClassVar[str] = "store.stop"
    has_undo: ClassVar[bool] = True
    mechanisms: ClassVar[tuple[Mechanism, ...]] = (PIDFD,)
    stands_for: ClassVar[str] = (
        "a coordinator that swaps, is paused by its virtual machine, or is held in a debugger: clients of "
        "its store wait and see no error"
    )
    does_not_certify: ClassVar[str] = "a store that answers late (store.delay), nor a host that is dead"

    duration_s: float | None = duration("how long it stays frozen; without it, until the scenario heals")

    def undo_record(self, victim: Victim) -> UndoRecord:
        host = find(victim)
        return UndoRecord(undo.SIGNAL_CONT, host.pid, host.start_ticks, victim.fault, host.as_dict())

    def inject(self, victim: Victim, channel: Channel | None) -> Evidence:
        host, why_not = host_of(victim)
        if host is None:
            return Evidence(why_not, False)
        return told(host, victim, ProcessStop().inject(as_victim(host, victim), None))

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        host = host_in(fired, victim)
        if host is None:
            return Evidence("no host was frozen", False)
        return ProcessStop().verify(host, fired)

    def verify_undone(self, record: UndoRecord) -> Evidence:
        return ProcessStop().verify_undone(record)
