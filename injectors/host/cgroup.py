"""Control groups of both versions behind one small interface, and groups of our own among them.

Rules kept here:

- A group of ours has a name that no one else gives: `torch-chaos-RUN-FAULT-PID`. Only such a group is ever
  written to or removed; the groups around it are read.
- Nothing is enabled in a foreign group. Where version 2 does not hand the controller on, that is said.
- Removing a group returns its processes to where the victim was before. It may be repeated.

Standard library only: the reaper uses it when the tool is gone.
"""

from __future__ import annotations

import errno
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

PREFIX = "torch-chaos-"
PROC = Path("/proc")
# A process that was just killed leaves its group a moment after it was seen to end.
EMPTY_S = 2.0


@dataclass(frozen=True)
class Hierarchy:
    """Where one controller is mounted.

    Attributes:
        version: 1 or 2.
        controller: cpu or memory.
        mount: its mount point.
        root: the group that the mount point shows, as /proc/PID/cgroup names it.
    """

    version: int
    controller: str
    mount: Path
    root: str = "/"

    def folder_of(self, pid: int, proc: Path = PROC) -> Path | None:
        """The folder of the group that a process is in; None if it is gone or its group can not be seen."""
        try:
            lines = (proc / str(pid) / "cgroup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            return None
        for line in lines:
            number, names, path = line.split(":", 2)
            mine = number == "0" and not names if self.version == 2 else self.controller in names.split(",")
            if mine:
                return self._folder(path)
        return None

    def _folder(self, path: str) -> Path | None:
        root = "" if self.root == "/" else self.root
        if path != root and not path.startswith(root + "/"):
            return None
        inside = path.removeprefix(root).strip("/")
        return None if ".." in inside.split("/") else self.mount / inside

    def parent_for(self, folder: Path) -> Path:
        """Where a new group goes for a process of the group `folder`.

        Version 1: inside it, so that every limit it is under still holds. Version 2 allows no processes
        beside groups, so next to it (the root is the exception).
        """
        return folder if self.version == 1 or folder == self.mount else folder.parent

    def problem(self, pid: int, proc: Path = PROC) -> str | None:
        """Why no group can be made for a process, and what would mend it; None if one can."""
        folder = self.folder_of(pid, proc)
        if folder is None or not folder.is_dir():
            return f"the {self.controller} group of pid {pid} can not be seen from here"
        if folder.name.startswith(PREFIX):
            return f"pid {pid} is in {folder.name} already: one such fault at a time"
        parent = self.parent_for(folder)
        if not os.access(parent, os.W_OK):
            return f"{parent} can not be written to; run as root, or delegate it to this user"
        if self.version == 2 and self.controller not in _words(parent / "cgroup.subtree_control"):
            enable = f"echo +{self.controller} > {parent}/cgroup.subtree_control"
            return f"{parent} does not hand on the controller {self.controller}; {enable}"
        return None


def find(controller: str, proc: Path = PROC) -> Hierarchy | None:
    """Where a controller is mounted; version 1 if it is there, for then version 2 does not have it."""
    second: Hierarchy | None = None
    for line in (proc / "self" / "mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        words, kind = before.split(), after.split()
        root, mount = words[3], Path(_unescaped(words[4]))
        if kind[0] == "cgroup" and controller in kind[2].split(","):
            return Hierarchy(1, controller, mount, root)
        if kind[0] == "cgroup2" and controller in _words(mount / "cgroup.controllers"):
            second = second or Hierarchy(2, controller, mount, root)
    return second


def probe(controller: str) -> str | None:
    """Why no group of ours can be made on this machine; None if one can."""
    hierarchy = find(controller)
    if hierarchy is None:
        return f"no cgroup controller {controller}; mount one, or boot with cgroups enabled"
    return hierarchy.problem(os.getpid())


def name_of(run: str, fault: str, pid: int) -> str:
    """The name of a group of ours."""
    parts = (run or "none", fault, str(pid))
    return PREFIX + "-".join(re.sub(r"[^A-Za-z0-9_.]+", "_", part) for part in parts)


def create(folder: Path, settings: list[tuple[str, str]]) -> None:
    """Make a group of ours and write its settings, in order; a setting named `?x` may be missing.

    Raises:
        FileExistsError: something of this name is there.
        OSError: the kernel refuses the group or a setting; the group is removed again.
    """
    folder.mkdir()
    try:
        for name, value in settings:
            file = folder / name.removeprefix("?")
            if file.exists() or not name.startswith("?"):
                file.write_text(value)
    except OSError:
        folder.rmdir()
        raise


def enter(folder: Path, pid: int) -> None:
    """Move a process, with all its threads, into a group.

    Raises:
        OSError: it is gone, or the kernel refuses.
    """
    (folder / "cgroup.procs").write_text(str(pid))


def processes(folder: Path) -> list[int]:
    """The processes of a group; a removed group has none."""
    try:
        return [int(word) for word in (folder / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def counters(file: Path) -> dict[str, int]:
    """A file of lines `name number`, as cpu.stat and memory.events are; {} if it is gone."""
    try:
        pairs = [line.split() for line in file.read_text().splitlines()]
    except OSError:
        return {}
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def remove(folder: Path, former: Path) -> tuple[bool, str]:
    """Return a group's processes to `former` and remove it.

    Returns:
        Whether it is gone, and what was done.

    Raises:
        ValueError: the group is none of ours.
    """
    if not folder.name.startswith(PREFIX):
        raise ValueError(f"{folder} is not a group of torch-chaos")
    limit = time.monotonic() + EMPTY_S
    while folder.is_dir():
        for pid in processes(folder):
            _return(pid, former if former.is_dir() else folder.parent)
        try:
            folder.rmdir()
        except FileNotFoundError:
            break
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > limit:
                return False, f"{folder}: {error.strerror}"
            time.sleep(0.005)
    return True, f"{folder.name} is removed"


def _return(pid: int, folder: Path) -> None:
    try:
        enter(folder, pid)
    except ProcessLookupError:
        pass  # it ended meanwhile


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []


def _unescaped(text: str) -> str:
    """mountinfo writes blanks and the like as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
