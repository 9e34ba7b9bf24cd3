"""Mount a faulty file system over a job's work folder, see it, and take it away.

Standard library only: the reaper uses it when the tool is gone.
"""

from __future__ import annotations

import importlib.util
import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from ctypes.util import find_library
from typing import Any

from injectors import helpers
from injectors.storage import fuse_mount

PROGRAM = fuse_mount.__file__
READY_S = 10.0
# A job that holds a file open through the mount has this long to close it before it gets an error.
PATIENCE_S = 3.0


def probe() -> str | None:
    """Why no file system of ours can be mounted here, and how to mend it; None if one can."""
    if importlib.util.find_spec("mfusepy") is None or find_library("fuse3") is None:
        return "no mfusepy or no libfuse3; pip install 'torch-chaos[fuse]', apt-get install libfuse3-3"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse can not be opened; modprobe fuse, or run as root"
    if os.geteuid() != 0:
        return "only root may mount, except for a job that runs in a user namespace of its own"
    return None


def problem(pid: int, work: str) -> str | None:
    """Why it can not be done for one victim; None if it can. Changes nothing."""
    why = probe()
    if why is not None and not (why.startswith("only root") and not _same(pid, "user")):
        return why
    # As the victim sees it: in a container the folder may be another one, or not there.
    if not work or not os.path.isdir(f"/proc/{pid}/root{os.path.realpath(work)}"):
        return "the job has no work folder to mount over"
    return None


def start(tag: str, config: Mapping[str, Any], run: str) -> str | None:
    """Start the helper and wait until it has mounted; returns what went wrong, None if nothing did.

    Args:
        tag: the name of the mount, by which it is found again.
        config: see `fuse_mount`.
        run: the run's marker.
    """
    package = importlib.util.find_spec("mfusepy")
    where = os.path.dirname(package.origin) if package is not None and package.origin else ""
    words = [tag, json.dumps({**config, "packages": where})]
    helper = helpers.start(tag, [sys.executable, "-I", PROGRAM, *words], run)
    assert helper.stdout is not None
    seen = select.select([helper.stdout], [], [], READY_S)[0]
    said = helper.stdout.readline().decode(errors="replace").strip() if seen else "no answer"
    if said == "ready":
        return None
    end(tag, int(config["pid"]), str(config["mount"]))
    return f"the file system could not be mounted: {said or 'the helper ended'}"


def end(tag: str, pid: int, folder: str) -> tuple[bool, str]:
    """End the helper and see to it that its mount is gone; may be repeated.

    Args:
        tag: the name of the mount; no other one is touched.
        pid: the victim, in whose view it was mounted.
        folder: what it was mounted over.
    """
    done, said = helpers.let_go(tag, PROGRAM, PATIENCE_S)
    if not done:
        return False, said
    # A helper that was killed leaves its mount behind, and everyone who looks at it an error.
    for view in (os.getpid(), pid):
        if is_mounted(tag, view):
            command = [sys.executable, "-I", "-S", PROGRAM, "--detach", str(view), folder]
            subprocess.run(command, check=False, capture_output=True, timeout=20)
    left = [view for view in (os.getpid(), pid) if is_mounted(tag, view)]
    return not left, f"{said}; the mount {'is still there' if left else 'is gone'}"


def is_mounted(tag: str, pid: int) -> bool:
    """Whether a process sees the mount of this name."""
    try:
        with open(f"/proc/{pid}/mountinfo", encoding="utf-8", errors="replace") as file:
            return any(line.partition(" - ")[2].split()[1:2] == [tag] for line in file)
    except OSError:
        return False


def _same(pid: int, name: str) -> bool:
    try:
        return os.stat(f"/proc/{pid}/ns/{name}").st_ino == os.stat(f"/proc/self/ns/{name}").st_ino
    except OSError:
        return True
