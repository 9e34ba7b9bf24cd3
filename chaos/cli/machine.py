"""The probes of the machine that `doctor` prints: what every run needs, and what some can do without."""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from chaos.clusters import contain, make
from chaos.runner import facts, preflight


@dataclass(frozen=True)
class Finding:
    """One probe. `needed`: nothing can run without it."""

    name: str
    works: bool
    detail: str
    needed: bool = False

    @property
    def mark(self) -> str:
        """Four letters for the table."""
        return "ok  " if self.works else "MISS" if self.needed else "-   "


def _system() -> Finding:
    fine = platform.system() == "Linux" and sys.version_info >= (3, 11)
    detail = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return Finding("system", fine, f"{detail}, {len(os.sched_getaffinity(0))} CPUs", needed=True)


def _torch() -> Finding:
    version = facts.torch_version()
    return Finding("torch", bool(version), version or "not installed: pip install torch", needed=True)


def _gloo() -> Finding:
    # In a process of its own: torch must not be loaded into this one.
    code = "import torch.distributed as d; print(d.is_gloo_available())"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("gloo", False, str(error), needed=True)
    works = done.stdout.strip() == "True"
    return Finding(
        "gloo", works, "available" if works else _last(done.stderr) or "torch has no gloo", needed=True
    )


def _namespaces() -> Finding:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import contain; contain.enter_namespaces()"
    folder = str(Path(contain.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, folder],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    if done.returncode == 0:
        return Finding("namespaces", True, "command targets run in a user and PID namespace of their own")
    return Finding(
        "namespaces", False, f"{_last(done.stderr)}; command targets are found by their marker instead"
    )


def _pidfd() -> Finding:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        return Finding("pidfd", False, f"{error.strerror}: Linux 5.3 or newer is needed", needed=True)
    return Finding("pidfd", True, "signals cannot hit a reused pid", needed=True)


def _pidfd_getfd() -> Finding:
    """Take a socket of a child, as the runtime does to release survivors."""
    ours, theirs = socket.socketpair()
    child = subprocess.Popen(["sleep", "5"], pass_fds=(theirs.fileno(),))
    fd = os.pidfd_open(child.pid)
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        got = libc.syscall(438, fd, theirs.fileno(), 0)
        reason = os.strerror(ctypes.get_errno())
        if got >= 0:
            os.close(got)
    finally:
        child.kill()
        child.wait()
        os.close(fd)
        ours.close()
        theirs.close()
    if got >= 0:
        return Finding("pidfd_getfd", True, "survivors are released from outside")
    return Finding("pidfd_getfd", False, f"{reason}; survivors are released by a thread inside them")


def _shm() -> Finding:
    try:
        preflight.check_shm()
    except Exception as error:
        return Finding("/dev/shm", False, str(error).replace("\n", " "), needed=True)
    stat = os.statvfs("/dev/shm")
    return Finding("/dev/shm", True, f"{stat.f_bavail * stat.f_frsize >> 20} MiB free", needed=True)


def _cgroup() -> Finding:
    second = Path("/sys/fs/cgroup/cgroup.controllers").is_file()
    root = Path("/sys/fs/cgroup")
    if not root.is_dir():
        return Finding("cgroup", False, "not mounted; limits on CPU and memory cannot be set")
    writable = os.access(root, os.W_OK)
    version = "v2" if second else "v1"
    return Finding("cgroup", writable, f"{version}, {'writable' if writable else 'read-only for this user'}")


def _cluster(kind: str) -> Finding:
    found = make.PROBES[kind]()
    detail = found.detail if found.works else f"{found.detail}; {found.mend}"
    return Finding(f"cluster {kind}", found.works, detail)


def _subreaper() -> Finding:
    libc = ctypes.CDLL(None, use_errno=True)
    value = ctypes.c_int()
    works = libc.prctl(37, ctypes.byref(value), 0, 0, 0) == 0
    return Finding(
        "subreaper", works, "exit status of adopted workers is visible" if works else "prctl refused"
    )


def _gpu() -> Finding:
    if not Path("/dev/nvidiactl").exists():
        return Finding("gpu", False, "none; jobs run on the CPU with gloo")
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("gpu", False, f"/dev/nvidiactl is there, nvidia-smi is not: {error}")
    lines = done.stdout.splitlines()
    return Finding("gpu", done.returncode == 0, "; ".join(lines) or _last(done.stderr))


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


PROBES: tuple[Callable[[], Finding], ...] = (
    _system,
    _torch,
    _gloo,
    _pidfd,
    _shm,
    _namespaces,
    _pidfd_getfd,
    _subreaper,
    _cgroup,
    partial(_cluster, "netns"),
    partial(_cluster, "docker"),
    _gpu,
)
