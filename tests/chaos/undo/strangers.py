"""Things that are not ours and are called almost as ours are: they must outlive everything, byte for byte."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
# Of this process: two runs of the tests may go on side by side.
NUMBER = os.getpid()
TABLE_NAME = f"torch_chaos_stranger_{NUMBER}"
TABLE = (
    f"table inet {TABLE_NAME}"
    """ {
    comment "torch-chaos: not of any run"
    chain input {
        type filter hook input priority 10; policy accept;
        ip saddr 192.0.2.1 counter drop
    }
}
"""
)
NETWORK = f"torch-chaos-stranger-{NUMBER}"
IMAGE, CONTAINER, CGROUP = f"{NETWORK}:1", f"{NETWORK}-node-0", NETWORK


@contextmanager
def strangers() -> Iterator[list[str]]:
    """Make what this machine allows; yields the names in a `machine.snapshot`. Removes it afterwards."""
    with ExitStack() as stack:
        made: list[str] = []
        if os.geteuid() == 0 and _has("nft"):
            stack.enter_context(_table())
            made.append(f"nft table inet {TABLE_NAME}")
        if os.geteuid() == 0:
            made += [f"cgroup {stack.enter_context(_cgroup(folder))}" for folder in _hierarchies()]
        if _docker("info"):
            made += stack.enter_context(_in_docker())
        yield made


def _has(name: str) -> bool:
    return shutil.which(name, path=PATH) is not None


def _run(*command: str, data: bytes = b"") -> str:
    env = {**os.environ, "PATH": PATH}
    done = subprocess.run(command, input=data, capture_output=True, env=env, timeout=30, check=True)
    return done.stdout.decode().strip()


@contextmanager
def _table() -> Iterator[None]:
    _run("nft", "-f", "-", data=TABLE.encode())
    try:
        yield
    finally:
        _run("nft", "delete", "table", "inet", TABLE_NAME)


def _hierarchies() -> list[Path]:
    root = Path("/sys/fs/cgroup")
    if (root / "cgroup.controllers").is_file():
        return [root] if os.access(root, os.W_OK) else []
    return [root / name for name in ("cpu", "memory") if os.access(root / name, os.W_OK)]


@contextmanager
def _cgroup(folder: Path) -> Iterator[Path]:
    own = folder / CGROUP
    own.mkdir()
    try:
        yield own
    finally:
        own.rmdir()


def _docker(*args: str) -> bool:
    if not _has("docker"):
        return False
    return subprocess.run(["docker", *args], capture_output=True, timeout=30, check=False).returncode == 0


@contextmanager
def _in_docker() -> Iterator[list[str]]:
    tree = io.BytesIO()
    with tarfile.open(fileobj=tree, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("empty"))
    _run("docker", "import", "-", IMAGE, data=tree.getvalue())
    with ExitStack() as stack:
        stack.callback(_run, "docker", "image", "rm", IMAGE)
        label = ("--label", "torch-chaos.stranger=1")
        network = _run("docker", "network", "create", "--internal", *label, NETWORK)
        stack.callback(_run, "docker", "network", "rm", NETWORK)
        container = _run("docker", "create", "--name", CONTAINER, *label, IMAGE, "/nothing")
        stack.callback(_run, "docker", "rm", CONTAINER)
        yield [f"docker network {network}", f"docker container {container}"]
