"""Whether a victim is back where it was, and the group that it was moved to is gone."""

from __future__ import annotations

from pathlib import Path

from injectors import signals
from injectors.fault import Evidence, UndoRecord
from injectors.host import cgroup


def is_back(record: UndoRecord, controller: str) -> Evidence:
    """Evidence from the kernel that a group of ours is gone and that the victim is where it was."""
    group, former = Path(record.data["group"]), Path(record.data["former"])
    if group.exists():
        return Evidence(f"{group} is still there", False)
    if not signals.is_alive(record.pid, record.start_ticks):
        return Evidence(f"{group.name} is gone, and so is the process", True)
    hierarchy = cgroup.find(controller)
    now = None if hierarchy is None else hierarchy.folder_of(record.pid)
    return Evidence(f"{group.name} is gone, pid {record.pid} is in {now}", now == former)
