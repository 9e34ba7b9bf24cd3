"""Cluster `netns`: one network namespace for each node, on a bridge in another, all in one user namespace.

Nothing of it has a name on the host, so nothing can be in anybody's way or be left behind: it is there as
long as its keeper lives, and the keeper dies with the tool. An ordinary user may make it where the kernel
allows user namespaces; root always may.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from chaos.clusters import contained, netns_keeper, processes
from chaos.clusters.base import Ability, Cluster, Output, Plot, close_all
from chaos.clusters.running import Running
from chaos.errors import TargetFailed
from injectors.cluster import undoing
from injectors.fault import Node, UndoRecord

ANSWER_S = 10.0
GONE_S = 5.0
PREFIX = 24
EVERYONE = 2**32 - 1


class KeeperRefused(Exception):
    """The kernel does not allow what the keeper asked for; the text says which request."""


def probe() -> Ability:
    """Make one node and take it down again."""
    cluster = NetnsCluster(Plot(f"probe-{os.getpid()}", "probe", 1))
    try:
        cluster.open()
        return Ability(True, f"nodes are network namespaces, {cluster.how}")
    except TargetFailed as error:
        return Ability(False, error.message, error.mend)
    finally:
        cluster.destroy()


class NetnsCluster(Cluster):
    """Network namespaces under a keeper."""

    kind: ClassVar[str] = "netns"

    def __init__(self, plot: Plot) -> None:
        super().__init__(plot)
        self.how = ""
        self._keeper: _Keeper | None = None
        self._inodes: list[int] = []

    def undo_record(self) -> UndoRecord:
        return UndoRecord(undoing.NETNS, data={"run": self.plot.run, "cluster": self.plot.name})

    def open(self) -> None:
        try:
            self._keeper, self.how = self._start_keeper()
            for index in range(self.plot.nodes):
                self.nodes.append(self._make(index))
        except (KeeperRefused, OSError) as error:
            self.destroy()
            raise TargetFailed(f"network namespaces cannot be made: {error}", remedy()) from None

    def _start_keeper(self) -> tuple[_Keeper, str]:
        env = {processes.MARKER: self.plot.run, undoing.CLUSTER: self.plot.name}
        try:
            return _Keeper(env, own_user=True), "in a user namespace, without any privilege"
        except KeeperRefused:
            if os.geteuid() != 0:
                raise
            return _Keeper(env, own_user=False), "made by root; the kernel refuses user namespaces"

    def _make(self, index: int) -> Node:
        assert self._keeper is not None
        name = f"node{index}"
        net = hashlib.sha256(f"{self.plot.run}/{self.plot.name}".encode()).digest()
        address = f"10.{net[0]}.{net[1]}.{index + 1}"
        answer = self._keeper.ask(
            op="node", index=index, name=f"{self.plot.run}/{name}", address=address, prefix=PREFIX
        )
        holder = processes.read(int(answer["pid"]))
        if holder is None:
            raise KeeperRefused("the node's holder ended at once")
        self._inodes.append(os.stat(f"/proc/{holder.pid}/ns/net").st_ino)
        return Node(
            index=index,
            name=name,
            kind=self.kind,
            address=address,
            interface=netns_keeper.INTERFACE,
            pid=holder.pid,
            start_ticks=holder.start_ticks,
            network=netns_keeper.BRIDGE,
        )

    def start(
        self, index: int, argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, output: Output
    ) -> Running:
        namespaces = self.namespaces(index)
        try:
            return contained.start(argv, env, cwd, output, namespaces)
        finally:
            close_all(namespaces)

    def namespaces(self, index: int) -> list[int]:
        node = self.nodes[index]
        own = os.stat("/proc/self/ns/user").st_ino
        opened: list[int] = []
        try:
            # Entering the user namespace that one is in already is an error.
            if os.stat(f"/proc/{node.pid}/ns/user").st_ino != own:
                opened.append(os.open(f"/proc/{node.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC))
            opened.append(os.open(f"/proc/{node.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            close_all(opened)
            raise TargetFailed(f"{node.name} is gone: {error.strerror}") from None
        return opened

    def revive(self, index: int) -> Node:
        if self._keeper is None:
            raise TargetFailed("the cluster has been taken down")
        try:
            self.nodes[index] = self._make(index)
        except (KeeperRefused, OSError) as error:
            raise TargetFailed(f"node {index} cannot be made again: {error}") from None
        return self.nodes[index]

    def processes_of(self, index: int) -> list[int]:
        node = self.nodes[index]
        return [p for p in undoing.sharing_network(node.pid) if p != node.pid]

    def destroy(self) -> list[str]:
        keeper, self._keeper = self._keeper, None
        self.nodes = []
        if keeper is None:
            return []
        return [] if keeper.stop() else [f"process {keeper.pid}: keeper of network namespaces"]

    def left(self) -> list[str]:
        """A namespace is there as long as a process is in it."""
        inodes = set(self._inodes)
        return [f"network namespace {inode}" for inode in inodes if undoing.in_network(inode)]


class _Keeper:
    """The engine's end of a keeper."""

    def __init__(self, env: Mapping[str, str], own_user: bool) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        root = str(Path(__file__).resolve().parents[2])
        # Isolated from the environment, and yet with the packages that this process has.
        path = [root, *(folder for folder in sys.path if folder and folder != root)]
        code = f"import sys; sys.path[:] = {path!r}; from chaos.clusters.netns_keeper import main; main()"
        user = "own" if own_user else "none"
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", code, str(theirs.fileno()), user],
                env=dict(env),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
            )
        self.pid = self._process.pid
        self._control = ours
        try:
            if own_user:
                _map_users(int(self._receive()["unshared"]))
                self._control.send(json.dumps({"op": "mapped"}).encode())
            self._receive()
        except (KeeperRefused, OSError) as error:
            self.stop()
            raise KeeperRefused(str(error)) from None

    def ask(self, **message: Any) -> dict[str, Any]:
        """Raises KeeperRefused if it cannot be done."""
        self._control.send(json.dumps(message).encode())
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        self._control.settimeout(ANSWER_S)
        try:
            raw = self._control.recv(4096)
        except TimeoutError:
            raise KeeperRefused(f"the keeper said nothing for {ANSWER_S:g} s") from None
        if not raw:
            raise KeeperRefused("the keeper ended")
        message: dict[str, Any] = json.loads(raw)
        if "refused" in message:
            raise KeeperRefused(message["refused"])
        return message

    def stop(self) -> bool:
        """End it and all holders; False if it does not end."""
        holders = processes.descendants(self.pid)
        self._process.kill()
        self._control.close()
        try:
            self._process.wait(GONE_S)
        except subprocess.TimeoutExpired:
            return False
        limit = time.monotonic() + GONE_S
        return all(_wait_gone(holder, limit - time.monotonic()) for holder in holders)


def _wait_gone(process: processes.Process, timeout_s: float) -> bool:
    if not processes.is_alive(process.pid, process.start_ticks):
        return True
    return processes.wait_ended(process.pid, max(0.0, timeout_s))


def _map_users(pid: int) -> None:
    """Say who is who in a new user namespace: root maps everybody as they are, anyone else is root inside."""
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        maps = {"uid_map": _same("uid_map"), "gid_map": _same("gid_map")}
    else:
        maps = {"setgroups": "deny", "uid_map": f"0 {uid} 1", "gid_map": f"0 {gid} 1"}
    for name, text in maps.items():
        Path(f"/proc/{pid}/{name}").write_text(text)


def _same(name: str) -> str:
    """Everyone of the caller's own user namespace, under the same numbers."""
    lines = Path(f"/proc/self/{name}").read_text().splitlines()
    return "".join(f"{first} {first} {count}\n" for first, _, count in (line.split() for line in lines))


def remedy() -> str:
    """What would make the kernel allow it, from the switches that distributions have."""
    for path, bad, mend in (
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "set it to 0"),
        ("/proc/sys/kernel/unprivileged_userns_clone", "0", "set it to 1"),
        ("/proc/sys/user/max_user_namespaces", "0", "raise it"),
        ("/proc/sys/user/max_net_namespaces", "0", "raise it"),
    ):
        try:
            if Path(path).read_text().strip() == bad:
                return f"{path} is {bad}: {mend} (as root), or run as root"
        except OSError:
            continue
    return "run as root, or use a cluster of kind docker"
