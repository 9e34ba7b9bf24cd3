"""Shared memory that a run left in /dev/shm: recognised, and removed where it can only be the run's."""

from __future__ import annotations

import os
import re
from collections.abc import Collection

from chaos.clusters import processes

FOLDER = "/dev/shm"
# Names that torch, Python's multiprocessing, OpenMP and NCCL give. An entry of another name is reported, not
# removed.
OURS = ("torch_", "psm_", "sem.mp-", "sem.loky-", "pymp-", "nccl-", "__KMP_REGISTERED_LIB_", "recovery-")


def entries() -> set[str]:
    """The names in /dev/shm; empty where there is none."""
    try:
        return set(os.listdir(FOLDER))
    except OSError:
        return set()


def left(before: Collection[str], since: float, run: str, known: Collection[int] = ()) -> list[str]:
    """Entries that are new, belong to this user, and that no living process maps or holds open.

    Args:
        before: names that were there when the run began.
        since: wall-clock time at which the run began, seconds.
        run: its marker. While another run is alive, only what names a process of this one is this one's.
        known: pids of the run's processes, as they number themselves.

    Memory that a living process still uses belongs to that process: to another program, or to one of the run
    that the process check reports.
    """
    new: dict[str, int] = {}
    for name in entries() - set(before):
        try:
            stat = os.stat(f"{FOLDER}/{name}", follow_symlinks=False)
        except OSError:
            continue
        if stat.st_uid == os.getuid() and stat.st_ctime >= since - 1.0:
            new[name] = stat.st_ino
    if not new:
        return []
    used = _in_use()
    unused = sorted(name for name, inode in new.items() if inode not in used)
    if unused and processes.other_runs(run):
        return [name for name in unused if maker(name) in known]
    return unused


def maker(name: str) -> int | None:
    """The pid in a name that torch or NCCL gave: the process that made it."""
    found = re.match(r"(?:torch|nccl)[_-](\d+)[_-]", name)
    return int(found.group(1)) if found else None


def remove(names: Collection[str]) -> list[str]:
    """Remove entries with names that this kind of run gives; returns those that stay."""
    stay = []
    for name in names:
        if not name.startswith(OURS):
            stay.append(name)
            continue
        try:
            os.unlink(f"{FOLDER}/{name}")
        except FileNotFoundError:
            pass
        except OSError:
            stay.append(name)
    return stay


def _in_use() -> set[int]:
    """The inodes in /dev/shm that a process maps or holds open. Names would not do: a semaphore is mapped
    under a passing name before it gets its own, and the kernel shows that one of its maker.
    """
    used: set[int] = set()
    device = os.stat(FOLDER).st_dev
    shown = f"{os.major(device):02x}:{os.minor(device):02x}"
    for pid in processes.pids():
        try:
            with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
                fields = (line.split(None, 5) for line in file)
                used.update(int(field[4]) for field in fields if field[3] == shown)
            for fd in os.listdir(f"/proc/{pid}/fd"):
                path = f"/proc/{pid}/fd/{fd}"
                if os.readlink(path).startswith(f"{FOLDER}/"):
                    used.add(os.stat(path).st_ino)
        except OSError:
            continue
    return used
