"""`host.memory`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from injectors import signals
from injectors.fault import (
    NEEDS_AGENT,
    Channel,
    Evidence,
    Fault,
    FaultError,
    Mechanism,
    UndoRecord,
    Victim,
    parameter,
)
from injectors.host import cgroup
from injectors.host.back import is_back

KILLED_S = 10.0
# The kernel never chooses a process that was exempted; its limit would then block it for good.
EXEMPT = -1000

LIMIT = Mechanism(
    name="cgroup",
    fidelity="real: the kernel's out-of-memory killer acts, in a group that holds the victim alone",
    probe=lambda: cgroup.probe("memory"),
)


@dataclass(frozen=True, kw_only=True)
class HostMemory(Fault):
    """Let one rank outgrow a memory limit: the kernel's out-of-memory killer ends it, and no one else.

    The victim is moved to a control group of its own with a limit, and the agent takes memory there. What it
    had before stays charged to its former group (neither version moves it), so the limit counts what it takes
    from then on. Page cache and shared memory that others touch are charged to their own groups, and the
    killer chooses among the processes of this one.
    Proof: the group's counter oom_kill rose, and the victim is gone.
    Undo: ours is removed, anything alive in it goes back to the former group. Repeatable.
    """

    id: ClassVar[str] = "host.memory"
    inside: ClassVar[bool] = True
    needs_run: ClassVar[str] = NEEDS_AGENT
    has_undo: ClassVar[bool] = True
    mechanisms: ClassVar[tuple[Mechanism, ...]] = (LIMIT,)
    privileges: ClassVar[tuple[str, ...]] = ("root, or a delegated cgroup",)
    stands_for: ClassVar[str] = (
        "a leak under a container's memory limit, a data loader that caches too much: SIGKILL without a word"
    )
    does_not_certify: ClassVar[str] = (
        "a host that runs out as a whole: the kernel may choose another process there, and all slows first"
    )
    expects: ClassVar[str | None] = "crash"

    headroom_bytes: int = parameter(
        "how much it may still take",
        kind="int",
        default=32 << 20,
        unit="bytes",
        minimum=4 << 20,
        maximum=1 << 34,
    )

    def undo_record(self, victim: Victim) -> UndoRecord:
        hierarchy = cgroup.find("memory")
        if hierarchy is None:
            raise FaultError(f"{self.id}: no cgroup controller memory\n  mend: mount one")
        problem = hierarchy.problem(victim.pid) or exempted(victim.pid)
        if problem is not None:
            raise FaultError(f"{self.id}: {problem}")
        former = hierarchy.folder_of(victim.pid)
        assert former is not None, "a group without a problem has a folder"
        own = hierarchy.parent_for(former) / cgroup.name_of(victim.run, victim.fault, victim.pid)
        if own.exists():
            raise FaultError(f"{own} is there already\n  mend: `torch-chaos rollback`, or remove it")
        data = {"group": str(own), "former": str(former), "version": hierarchy.version}
        return UndoRecord("host.cgroup", victim.pid, victim.start_ticks, victim.fault, data)

    def inject(self, victim: Victim, channel: Channel | None) -> Evidence:
        if channel is None:
            return Evidence(f"{self.id} needs the agent, and no agent is waiting", False)
        try:
            data = self.undo_record(victim).data
            group = Path(data["group"])
            cgroup.create(group, settings(int(data["version"]), self.headroom_bytes))
            cgroup.enter(group, victim.pid)
        except (FaultError, OSError) as error:
            return Evidence(f"{self.id}: {error}", False)
        if not signals.is_alive(victim.pid, victim.start_ticks):
            return Evidence(f"pid {victim.pid} was already gone", False)
        before = kills(group)
        told = channel.act()
        seen: Mapping[str, Any] = {**data, **told.data, "oom_kill_before": before}
        return Evidence(f"{told.what}, in {group.name}", told.proven, told.source, seen)

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        if fired is None or not fired.proven:
            return Evidence("nothing was injected", False)
        gone = signals.wait_gone(victim.pid, victim.start_ticks, KILLED_S)
        killed = kills(Path(fired.data["group"])) - int(fired.data["oom_kill_before"])
        state = "has ended" if gone else "is still there"
        what = f"the kernel's killer struck {killed} times in the group; pid {victim.pid} {state}"
        return Evidence(what, gone and killed > 0, data={"oom_kill": killed})

    def verify_undone(self, record: UndoRecord) -> Evidence:
        return is_back(record, "memory")


def settings(version: int, limit_bytes: int) -> list[tuple[str, str]]:
    """The files of a new group that limit its memory and keep it from swapping instead."""
    if version == 2:
        return [("memory.max", str(limit_bytes)), ("?memory.swap.max", "0"), ("?memory.oom.group", "0")]
    return [("memory.limit_in_bytes", str(limit_bytes)), ("?memory.memsw.limit_in_bytes", str(limit_bytes))]


def kills(group: Path) -> int:
    """How often the kernel's killer struck in a group; 0 if it is gone."""
    for name in ("memory.oom_control", "memory.events"):
        found = cgroup.counters(group / name).get("oom_kill")
        if found is not None:
            return found
    return 0


def exempted(pid: int) -> str | None:
    """Why the killer would leave a process alone; None if it would not."""
    try:
        score = int(Path(f"/proc/{pid}/oom_score_adj").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return f"pid {pid} is gone"
    return f"pid {pid} is exempt from the killer (oom_score_adj {score})" if score <= EXEMPT else None
