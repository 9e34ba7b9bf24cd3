"""`data.worker_kill`."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import ClassVar

from injectors import signals
from injectors.fault import Channel, Evidence, Fault, Mechanism, Victim, parameter
from injectors.process.ending import PIDFD, send_signal, verify_gone

# torch gives its loader workers this name; the kernel shows it to everyone.
WORKER = "pt_data_worker"


@dataclass(frozen=True, kw_only=True)
class DataWorkerKill(Fault):
    """SIGKILL one worker process of a rank's torch DataLoader.

    The workers are the rank's descendants that bear the name which torch gives them.
    Proof: the kernel says that the worker has ended.
    Undo: none; what is dead stays dead.
    """

    id: ClassVar[str] = "data.worker_kill"
    mechanisms: ClassVar[tuple[Mechanism, ...]] = (PIDFD,)
    stands_for: ClassVar[str] = (
        "the out-of-memory killer that picks a loader worker, a decoder that crashes, too small a /dev/shm"
    )
    does_not_certify: ClassVar[str] = (
        "loaders that are not torch's, nor a worker that hangs, which only the loader's own timeout notices"
    )
    expects: ClassVar[str | None] = "exception"

    worker: int = parameter(
        "which of them, from 0 in the order of their start", kind="int", default=0, minimum=0, maximum=1023
    )

    def inject(self, victim: Victim, channel: Channel | None) -> Evidence:
        found = loader_workers(victim.pid)
        if self.worker >= len(found):
            whose = f"rank {victim.rank} (pid {victim.pid})"
            what = f"{whose} has {len(found)} loader workers, so no number {self.worker}"
            return Evidence(what, False, data={"workers": [pid for pid, _ in found]})
        pid, ticks = found[self.worker]
        one = Victim(pid=pid, start_ticks=ticks, rank=victim.rank, fault=victim.fault)
        sent = send_signal(one, signal.SIGKILL)
        what = f"loader worker {self.worker} of {len(found)} of rank {victim.rank}: {sent.what}"
        return Evidence(what, sent.proven, data={**sent.data, "start_ticks": ticks, "workers": len(found)})

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        if fired is None or "start_ticks" not in fired.data:
            return Evidence("no loader worker was killed", False)
        pid, ticks = int(fired.data["pid"]), int(fired.data["start_ticks"])
        return verify_gone(Victim(pid=pid, start_ticks=ticks), timeout_s=5.0)


def loader_workers(pid: int) -> list[tuple[int, int]]:
    """(pid, start time) of the living loader workers below a process, in the order of their start.

    A loader may start its workers by way of a fork server, so they need not be its children.
    """
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        parent = signals.parent(int(name)) if name.isdigit() else None
        if parent is not None:
            children.setdefault(parent, []).append(int(name))
    found, queue = [], [pid]
    while queue:
        for child in children.get(queue.pop(), ()):
            queue.append(child)
            ticks = signals.start_ticks(child)
            if ticks is not None and _name(child) == WORKER and signals.is_alive(child, ticks):
                found.append((child, ticks))
    return sorted(found, key=lambda one: (one[1], one[0]))


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
