"""Which process hosts the TCPStore of a rank, found from outside and without a word from the job.

The rank's own environment names the store (`MASTER_ADDR`, `MASTER_PORT`); the kernel says who listens there.
Under `torchrun` that is the agent of node 0, or rank 0 where the store is not shared. Only a process that
carries the same run marker as the rank is ever returned, or that belongs to the job which the tool attached
to: a store that belongs to someone else is refused.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from injectors import signals
from injectors.fault import FaultError, Victim
from injectors.marks import MARKER, environment, marked

_LISTEN, _ESTABLISHED = "0A", "01"
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class StoreHost:
    """The process behind a job's store."""

    pid: int
    start_ticks: int
    inode: int
    """Of the listening socket."""
    address: str
    """Where it answers, as seen from its own network namespace."""
    port: int
    named: str
    """MASTER_ADDR:MASTER_PORT, as the rank has them."""
    run: str
    """The run's marker, for what a fault of it creates."""

    def is_victim(self, victim: Victim) -> bool:
        """Whether the rank hosts the store itself."""
        return (self.pid, self.start_ticks) == (victim.pid, victim.start_ticks)

    def in_words(self) -> str:
        return f"pid {self.pid} ({command(self.pid)}), which listens for {self.named}"

    def as_dict(self) -> dict[str, object]:
        return {"host": self.pid, "start_ticks": self.start_ticks, "address": self.address, "port": self.port}


def find(victim: Victim) -> StoreHost:
    """The process that hosts the store which this rank uses.

    Raises:
        FaultError: the rank names no store, no one of the run listens there, or more than one does.
    """
    given = environment(victim.pid)
    run, port = given.get(MARKER, ""), given.get("MASTER_PORT", "")
    if victim.job:
        run = victim.run
    elif not run:
        raise FaultError(f"pid {victim.pid} carries no {MARKER}: it is not of this run and is left alone")
    if not port.isdigit():
        raise FaultError(
            f"pid {victim.pid} has no MASTER_PORT: this job has no TCPStore that its environment names\n"
            "  mend: aim at a torchrun job; the recovery runtime has no TCPStore, see docs/faults.md"
        )
    named = f"{given.get('MASTER_ADDR', '')}:{port}"
    job = [pid for pid, ticks in victim.job if signals.is_alive(pid, ticks)]
    members = job if victim.job else marked(run)
    found = [
        host
        for pid in _one_of_each_network([victim.pid, *members])
        for host in _listeners(pid, int(port), members, named, run)
    ]
    if len(found) > 1:
        found = [host for host in found if _is_connected(victim.pid, host)] or found
    if len(found) == 1:
        return found[0]
    if found:
        which = ", ".join(str(host.pid) for host in found)
        raise FaultError(f"{named} is served by several of this run: {which}\n  mend: use each port once")
    raise FaultError(_nobody(victim.pid, int(port), named))


def command(pid: int) -> str:
    """The start of a command line, for people; "" if the process is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip()[:120]
    except OSError:
        return ""


def descriptor(pid: int, inode: int) -> int | None:
    """The descriptor under which a process holds a socket; None if it does not."""
    for number, target in _descriptors(pid):
        if target == f"socket:[{inode}]":
            return number
    return None


def daemon_thread(host: StoreHost) -> int | None:
    """The one thread that answers the store's clients: it sleeps in epoll on the listening socket.

    None if no thread does right now, or the server is one of torch's older kind, which uses no epoll.
    """
    listening = descriptor(host.pid, host.inode)
    pollers = {fd for fd, target in _descriptors(host.pid) if target == "anon_inode:[eventpoll]"}
    watching = {fd for fd in pollers if listening in _watched(host.pid, fd)}
    for thread, number, args in signals.syscalls(host.pid):
        if number in _EPOLL_WAITS.get(os.uname().machine, ()) and args and args[0] in watching:
            return thread
    return None


_EPOLL_WAITS = {"x86_64": (232, 281, 441), "aarch64": (22, 441)}


def _watched(pid: int, epoll: int) -> set[int]:
    try:
        with open(f"/proc/{pid}/fdinfo/{epoll}", encoding="ascii") as file:
            return {int(line.split()[1]) for line in file if line.startswith("tfd:")}
    except OSError:
        return set()


def _descriptors(pid: int) -> list[tuple[int, str]]:
    found = []
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return []
    for name in names:
        try:
            found.append((int(name), os.readlink(f"/proc/{pid}/fd/{name}")))
        except OSError:
            continue
    return found


def _listeners(pid: int, port: int, members: list[int], named: str, run: str) -> list[StoreHost]:
    """Those of the run that listen on a port, in the network namespace of `pid`."""
    found = []
    for row in _sockets(pid):
        if row.state != _LISTEN or row.local[1] != port:
            continue
        holders = {member for member in members if descriptor(member, row.inode) is not None}
        # A child that was forked, a data loader's worker say, holds its parent's sockets too.
        for holder in (one for one in holders if signals.parent(one) not in holders):
            ticks = signals.start_ticks(holder)
            if ticks is not None:
                address = _LOOPBACK if row.local[0] in _ANY else row.local[0]
                found.append(StoreHost(holder, ticks, row.inode, address, port, named, run))
    return found


def _nobody(pid: int, port: int, named: str) -> str:
    for row in _sockets(pid):
        if row.state == _LISTEN and row.local[1] == port:
            for name in os.listdir("/proc"):
                if name.isdigit() and descriptor(int(name), row.inode) is not None:
                    return (
                        f"{named} is served by pid {name} ({command(int(name))}), which is not of this run: "
                        "it is left alone"
                    )
    return f"no process of this run listens on {named}\n  mend: place the fault where the store is up"


@dataclass(frozen=True)
class _Socket:
    local: tuple[str, int]
    remote: tuple[str, int]
    state: str
    inode: int


_ANY = ("0.0.0.0", "::")


def _sockets(pid: int) -> list[_Socket]:
    """The TCP sockets of a process's network namespace."""
    found = []
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{pid}/net/{name}", encoding="ascii") as file:
                rows = [line.split() for line in file][1:]
        except OSError:
            continue
        found += [_Socket(_endpoint(row[1]), _endpoint(row[2]), row[3], int(row[9])) for row in rows]
    return found


def _endpoint(text: str) -> tuple[str, int]:
    """Address and port as the kernel prints them: words of 32 bits in the machine's byte order."""
    import socket
    import sys

    address, port = text.split(":")
    words = [bytes.fromhex(address[i : i + 8]) for i in range(0, len(address), 8)]
    raw = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    if len(raw) == 16 and raw.startswith(b"\0" * 10 + b"\xff\xff"):
        raw = raw[12:]
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw), int(port, 16)


def _one_of_each_network(pids: list[int]) -> list[int]:
    seen: dict[int, int] = {}
    for pid in pids:
        try:
            seen.setdefault(os.stat(f"/proc/{pid}/ns/net").st_ino, pid)
        except OSError:
            continue
    return list(seen.values())


def _is_connected(pid: int, host: StoreHost) -> bool:
    """Whether the other end of a connection of the process is in the host's namespace."""
    own = {target for _, target in _descriptors(pid)}
    ends = {
        (row.remote, row.local)
        for row in _sockets(pid)
        if row.state == _ESTABLISHED and row.remote[1] == host.port and f"socket:[{row.inode}]" in own
    }
    return any((row.local, row.remote) in ends for row in _sockets(host.pid) if row.state == _ESTABLISHED)
