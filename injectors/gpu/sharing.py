"""What the faults share that put a process of ours beside the victim on its device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from injectors.fault import Channel, Evidence, Fault, FaultError, Mechanism, UndoRecord, Victim, parameter
from injectors.gpu import cuda, nvml, tenant
from injectors.gpu.looking import wait_seen
from injectors.gpu.owning import device_of
from injectors.gpu.setting import SETTLE_S, label, token_of
from injectors.marks import run_of

READY_S = 60.0
"""Importing torch and opening a device may take this long on a busy machine."""
MARGIN_S = 60.0
"""How much longer than the fault lasts the process may live if nobody ends it."""


@dataclass(frozen=True, kw_only=True)
class SharingFault(Fault):
    """Base of the faults that start a co-tenant. The process starts at once and is in force seconds later."""

    has_undo: ClassVar[bool] = True
    mechanisms: ClassVar[tuple[Mechanism, ...]] = cuda.SHARED
    needs: ClassVar[tuple[str, ...]] = ("gpu",)
    act: ClassVar[str]
    """burn or hold; see `co_tenant.py`."""

    device: str = parameter(
        "index or UUID; without it, the device that the victim computes on", kind="str", default=""
    )
    duration_s: float = parameter(
        "how long, counted from the start of the process, which takes seconds to be in force",
        default=30.0,
        unit="s",
        minimum=0.001,
        maximum=3600.0,
    )
    share: float

    def undo_record(self, victim: Victim) -> UndoRecord:
        with nvml.session() as session:
            device = device_of(session, victim, self.device)
            data = {"token": token_of(victim), "uuid": device.uuid, "library": session.library}
            return UndoRecord("gpu.tenant", victim.pid, victim.start_ticks, victim.fault, data)

    def inject(self, victim: Victim, channel: Channel | None) -> Evidence:
        token = token_of(victim)
        try:
            with nvml.session() as session:
                device = device_of(session, victim, self.device)
                free, total = device.memory_bytes()
                arguments = [self.act, "--share", str(self.share)]
                begun = tenant.start(
                    token,
                    device.uuid,
                    victim.run or run_of(victim.pid),
                    arguments,
                    self.duration_s + MARGIN_S,
                )
                data = {
                    "device": device.uuid,
                    "library": session.library,
                    "stand_in": session.stand_in,
                    "token": token,
                    "pid": begun.process.pid,
                    "free_bytes": free,
                    "total_bytes": total,
                }
                what = f"{label(session)}pid {begun.process.pid} was started on {device}"
                return Evidence(what, True, data=data)
        except (FaultError, OSError) as error:
            return Evidence(str(error), False)

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        begun = tenant.started(str(fired.data.get("token"))) if fired is not None and fired.proven else None
        if fired is None or begun is None:
            return Evidence("no process was started", False)
        ready = begun.hear(READY_S)
        if ready is None or not ready.get("ready"):
            why = "ended or said nothing" if ready is None else ready.get("error")
            return Evidence(f"the process beside the victim is not ready: {why}", False)
        said = wait_seen(begun.ask, lambda found: found is None or self.settled(found), SETTLE_S)
        if said is None:
            return Evidence("the process beside the victim does not answer", False)
        try:
            with nvml.session(fired.data["library"]) as session:
                device = session.device(fired.data["device"])
                used = {process.pid: process.used_bytes for process in device.processes()}
                free, _ = device.memory_bytes()
                seen = {
                    "listed": begun.process.pid in used,
                    "used_bytes": used.get(begun.process.pid, 0),
                    "free_bytes": free,
                    "utilization_percent": device.utilization_percent(),
                    "own_session": session_of(begun.process.pid) == begun.process.pid,
                }
                prefix = label(session)
        except FaultError as error:
            return Evidence(str(error), False)
        what, proven = self.judge(said, seen, fired.data)
        names = f"{ready['device_name']}, torch {ready['torch']}"
        data = {
            "before": {"free_bytes": fired.data["free_bytes"]},
            "said": said,
            "seen": seen,
            "ready": ready,
        }
        return Evidence(f"{prefix}{what} ({names})", proven and bool(seen["listed"]), data=data)

    def settled(self, said: dict[str, Any]) -> bool:
        """Whether the process has been in force long enough to be judged by what it says."""
        return True

    def judge(self, said: dict[str, Any], seen: dict[str, Any], before: Any) -> tuple[str, bool]:
        """What the process says and NVML shows, in words, and whether that is the effect."""
        raise NotImplementedError

    def verify_undone(self, record: UndoRecord) -> Evidence:
        data = record.data
        left = [pid for pid, _ in tenant.find(data["token"])]
        try:
            with nvml.session(data["library"]) as session:
                device = session.device(data["uuid"])
                free, _ = device.memory_bytes()
                listed = [process.pid for process in device.processes()]
                prefix = label(session)
        except FaultError as error:
            return Evidence(str(error), False)
        what = f"{prefix}{len(left)} of ours left; on the device: {listed or 'none'}; {free} bytes free"
        return Evidence(what, not left, data={"left": left, "listed": listed, "free_bytes": free})


def session_of(pid: int) -> int | None:
    """The session that a process belongs to; None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[3])
    except (FileNotFoundError, ProcessLookupError):
        return None
