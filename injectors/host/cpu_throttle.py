"""`host.cpu_throttle`."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from injectors import signals
from injectors.fault import (
    Channel,
    Evidence,
    Fault,
    FaultError,
    Mechanism,
    UndoRecord,
    Victim,
    duration,
    parameter,
)
from injectors.host import cgroup, duty
from injectors.host.back import is_back

PERIOD_US = 100_000
# The kernel takes no quota below a millisecond.
LEAST_QUOTA_US = 1_000
SEEN_S = 5.0
# So many looks at a process must find it stopped: one could be anyone's signal.
STOPS_SEEN = 3

CGROUP = Mechanism(
    name="cgroup",
    fidelity="real: the kernel's scheduler withholds the processor, as a container's limit does",
    probe=lambda: cgroup.probe("cpu"),
)
DUTY = Mechanism(
    name="duty",
    fidelity="alike: it is stopped and continued 20 to 50 times a second, and whoever looks sees state T",
    probe=lambda: None,
)


@dataclass(frozen=True, kw_only=True)
class HostCpuThrottle(Fault):
    """Slow one rank to a share of one processor; it stays alive and correct, and is late for everything.

    With a control group, the victim is moved to one of its own that has a quota. Without one, a helper stops
    and continues it: stops of 20 ms, because a runtime may take a process for frozen that is stopped for
    longer (`recovery` does at 100 ms).
    Proof: the kernel counts periods in which the group was throttled (cpu.stat); or it is seen in state T
    again and again.
    Undo: back to its former group, and ours is removed; or the helper is ended and SIGCONT sent. Repeatable.
    """

    id: ClassVar[str] = "host.cpu_throttle"
    has_undo: ClassVar[bool] = True
    proof_comes_later: ClassVar[bool] = True
    mechanisms: ClassVar[tuple[Mechanism, ...]] = (CGROUP, DUTY)
    privileges: ClassVar[tuple[str, ...]] = ("cgroup: root, or a delegated group",)
    stands_for: ClassVar[str] = (
        "a noisy neighbour, thermal throttling, a container limit set too low: a synchronous job's straggler"
    )
    does_not_certify: ClassVar[str] = (
        "a slow GPU or a slow network; children that the victim had before are not slowed with it"
    )
    expects: ClassVar[str | None] = None

    share: float = parameter("of one processor", default=0.2, minimum=0.01, maximum=0.9)
    mechanism: str = parameter(
        "which way; auto takes the best that works",
        kind="str",
        default="auto",
        choices=("auto", "cgroup", "duty"),
    )
    duration_s: float | None = duration("how long it stays slow", default=10.0)

    def undo_record(self, victim: Victim) -> UndoRecord:
        if not signals.is_alive(victim.pid, victim.start_ticks):
            raise FaultError(f"pid {victim.pid} is gone")
        hierarchy = cgroup.find("cpu")
        problem = "no cgroup controller cpu" if hierarchy is None else hierarchy.problem(victim.pid)
        if hierarchy is not None and problem is None and self.mechanism != "duty":
            former = hierarchy.folder_of(victim.pid)
            assert former is not None, "a group without a problem has a folder"
            own = hierarchy.parent_for(former) / cgroup.name_of(victim.run, victim.fault, victim.pid)
            if own.exists():
                raise FaultError(f"{own} is there already\n  mend: `torch-chaos rollback`, or remove it")
            data = {"group": str(own), "former": str(former), "version": hierarchy.version}
            return UndoRecord("host.cgroup", victim.pid, victim.start_ticks, victim.fault, data)
        if self.mechanism == "cgroup":
            raise FaultError(f"{self.id}: {problem}\n  mend: or let it take `mechanism: duty`")
        tag = cgroup.name_of(victim.run, victim.fault, victim.pid)
        return UndoRecord("host.duty", victim.pid, victim.start_ticks, victim.fault, {"tag": tag})

    def inject(self, victim: Victim, channel: Channel | None) -> Evidence:
        try:
            record = self.undo_record(victim)
            if record.kind == "host.duty":
                return self._start_helper(victim, str(record.data["tag"]))
            return self._limit(victim, record.data)
        except (FaultError, OSError) as error:
            return Evidence(f"{self.id}: {error}", False)

    def _limit(self, victim: Victim, data: Mapping[str, Any]) -> Evidence:
        group, former = Path(data["group"]), Path(data["former"])
        quota_us = max(LEAST_QUOTA_US, int(self.share * PERIOD_US))
        cgroup.create(group, settings(int(data["version"]), quota_us))
        try:
            cgroup.enter(group, victim.pid)
        except ProcessLookupError:
            cgroup.remove(group, former)
            return Evidence(f"pid {victim.pid} was already gone", False)
        if not signals.is_alive(victim.pid, victim.start_ticks):
            # The number may belong to a stranger by now; it goes back at once.
            cgroup.remove(group, former)
            return Evidence(f"pid {victim.pid} was already gone", False)
        what = f"pid {victim.pid} may use {quota_us / 1000:g} of every {PERIOD_US / 1000:g} ms of a processor"
        return Evidence(what, True, data={**data, "mechanism": "cgroup", "quota_us": quota_us})

    def _start_helper(self, victim: Victim, tag: str) -> Evidence:
        limit_s = self.duration_s or 3600.0
        duty.start(tag, victim.pid, victim.start_ticks, self.share, limit_s, victim.run)
        what = f"pid {victim.pid} is stopped {1.0 - self.share:.0%} of the time"
        return Evidence(what, True, data={"mechanism": "duty", "tag": tag, "share": self.share})

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        if fired is None or not fired.proven:
            return Evidence("nothing was injected", False)
        if fired.data["mechanism"] == "cgroup":
            return _throttled(Path(fired.data["group"]), victim)
        return _stopped_again_and_again(victim)

    def verify_undone(self, record: UndoRecord) -> Evidence:
        if record.kind == "host.duty":
            left = duty.find(str(record.data["tag"]))
            seen = signals.state(record.pid)
            free = not signals.is_alive(record.pid, record.start_ticks) or seen not in ("T", "t")
            what = f"{len(left)} helpers are left, pid {record.pid} is in state {seen or 'gone'}"
            return Evidence(what, not left and free, data={"state": seen})
        return is_back(record, "cpu")


def settings(version: int, quota_us: int) -> list[tuple[str, str]]:
    """The files of a new group that give it a quota, in the order in which they are written."""
    if version == 2:
        return [("cpu.max", f"{quota_us} {PERIOD_US}")]
    return [("cpu.cfs_period_us", str(PERIOD_US)), ("cpu.cfs_quota_us", str(quota_us))]


def _throttled(group: Path, victim: Victim) -> Evidence:
    """Wait until the kernel has counted a period in which the group wanted more than it got."""
    limit = time.monotonic() + SEEN_S
    while True:
        seen = cgroup.counters(group / "cpu.stat")
        throttled_ms = seen.get("throttled_usec", seen.get("throttled_time", 0) // 1000) / 1000
        data = {"nr_throttled": seen.get("nr_throttled", 0), "throttled_ms": throttled_ms}
        if data["nr_throttled"] > 0:
            what = f"throttled in {data['nr_throttled']} periods, {throttled_ms:g} ms in all"
            return Evidence(what, True, data={**data, "nr_periods": seen.get("nr_periods")})
        alive = signals.is_alive(victim.pid, victim.start_ticks) and group.is_dir()
        if time.monotonic() > limit or not alive:
            what = "the kernel never throttled the group: the process asked for less"
            return Evidence(what, False, data=data)
        time.sleep(0.01)


def _stopped_again_and_again(victim: Victim) -> Evidence:
    """Count the times that the process is seen to go from running to stopped."""
    limit, stops, last = time.monotonic() + SEEN_S, 0, ""
    while time.monotonic() < limit and signals.start_ticks(victim.pid) == victim.start_ticks:
        state = signals.state(victim.pid) or ""
        stops += state == "T" and last not in ("T", "")
        last = state
        if stops >= STOPS_SEEN:
            what = f"seen to stop {stops} times, and to go on in between"
            return Evidence(what, True, data={"stops": stops})
        os.sched_yield()
    return Evidence(f"seen to stop {stops} times only", False, data={"stops": stops})
