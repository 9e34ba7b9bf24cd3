"""A node's network namespace: found again by what it is, not by a number, and entered for one command.

A namespace is named by a process that lives in it (pid and start time) and by its inode. The inode alone can
be given to another namespace once this one is gone; everything made in it carries a tag besides.

Standard library only: the undo path runs when the tool is already dead.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from injectors import signals
from injectors.fault import FaultError, Node

COMMAND_S = 20.0


class SpaceError(RuntimeError):
    """A command in a node's namespace failed; the message is the command's own."""


@dataclass(frozen=True)
class Space:
    """The network namespace of one node.

    Attributes:
        pid: a process that lives in it.
        netns: inode of /proc/PID/ns/net.
        user: inode of /proc/PID/ns/user.
    """

    pid: int
    netns: int
    user: int


def inode(pid: int | str, kind: str) -> int | None:
    """Inode of a process's namespace; None if the process is gone or may not be looked at."""
    try:
        return os.stat(f"/proc/{pid}/ns/{kind}").st_ino
    except OSError:
        return None


def of(node: Node) -> dict[str, Any]:
    """What an undo record needs to find a node again.

    Raises:
        FaultError: the node has no network of its own, or it is gone.
    """
    if node.kind == "local" or not node.pid:
        raise FaultError(
            f"{node.name} shares the network of this machine\n"
            "  mend: faults of the network need nodes: target.cluster.kind netns or docker"
        )
    netns = inode(node.pid, "net")
    if netns is None:
        raise FaultError(f"{node.name} is gone, or its namespaces may not be looked at (pid {node.pid})")
    if netns == inode("self", "net"):
        raise FaultError(f"{node.name} lives in the network of this tool, which is left alone")
    return {
        "index": node.index,
        "name": node.name,
        "kind": node.kind,
        "address": node.address,
        "interface": node.interface,
        "pid": node.pid,
        "start_ticks": node.start_ticks or signals.start_ticks(node.pid) or 0,
        "netns": netns,
    }


def find(node: Mapping[str, Any]) -> Space | None:
    """The namespace of a node that `of` described; None once no process lives in it."""
    pid, netns = int(node["pid"]), int(node["netns"])
    if signals.is_alive(pid, int(node["start_ticks"])) and inode(pid, "net") == netns:
        return Space(pid, netns, inode(pid, "user") or 0)
    # The process that stood for the node is gone; another may keep the namespace.
    for name in os.listdir("/proc"):
        if (
            name.isdigit()
            and inode(name, "net") == netns
            and signals.state(int(name)) not in ("Z", "X", None)
        ):
            return Space(int(name), netns, inode(name, "user") or 0)
    return None


def standing(node: Mapping[str, Any]) -> Space:
    """The namespace of a node that must be there.

    Raises:
        SpaceError: it is gone.
    """
    where = find(node)
    if where is None:
        raise SpaceError(f"{node['name']} is gone")
    return where


@contextmanager
def opened(space: Space) -> Iterator[tuple[int, int | None]]:
    """Descriptors of the network namespace, and of the user namespace that must be entered first, if any.

    Raises:
        SpaceError: the process is gone, or its pid belongs to another by now.
    """
    try:
        net = os.open(f"/proc/{space.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise SpaceError(f"the namespaces of pid {space.pid} can't be opened: {error.strerror}") from error
    user = None
    try:
        if os.fstat(net).st_ino != space.netns:
            raise SpaceError(f"pid {space.pid} is in another network namespace by now")
        # Root of an outer user namespace has every right in the inner ones without entering them.
        if os.geteuid() != 0 and space.user != inode("self", "user"):
            user = os.open(f"/proc/{space.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        yield net, user
    finally:
        os.close(net)
        if user is not None:
            os.close(user)


def entering(net: int, user: int | None) -> list[str]:
    """The command that enters the namespaces behind two descriptors, to be put before another."""
    words = ["nsenter", f"--net=/proc/self/fd/{net}"]
    if user is not None:
        words += [f"--user=/proc/self/fd/{user}", "--preserve-credentials"]
    return words


def run(space: Space, command: Sequence[str], stdin: str = "") -> str:
    """Run a command in a node's network and return what it wrote to stdout.

    Raises:
        SpaceError: it failed, could not be started or took longer than 20 s.
    """
    with opened(space) as (net, user):
        try:
            done = subprocess.run(
                [*entering(net, user), *command],
                input=stdin,
                capture_output=True,
                text=True,
                timeout=COMMAND_S,
                env=environment(),
                pass_fds=[fd for fd in (net, user) if fd is not None],
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SpaceError(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        raise SpaceError(f"{' '.join(command[:3])}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def environment() -> dict[str, str]:
    """The environment for nft, tc and ip: they are where an ordinary user's PATH does not look."""
    return {**os.environ, "PATH": search_path()}


def search_path() -> str:
    have = os.environ.get("PATH", os.defpath).split(":")
    return ":".join([*have, *(place for place in ("/usr/sbin", "/sbin") if place not in have)])
