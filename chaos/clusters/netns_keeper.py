"""The process that keeps a cluster of network namespaces: one for the bridge, one for each node.

Run as a program: `netns_keeper.py CONTROL_FD USER`. It enters a user namespace of its own (USER `own`; `none`
keeps the caller's, which must then be root) and a network namespace with a bridge in it. For each node it
forks a holder, a process that only waits, in a network namespace with a cable to the bridge. Nothing of this
has a name outside: when the keeper ends, so do the holders, and the kernel takes down every namespace in
which no process is left.

CONTROL_FD is a SEQPACKET socket, JSON both ways:
    out {"unshared": pid}, then waits for {"op": "mapped"}: who is who in a user namespace is written from
    outside, where alone root may map more than one user
    out {"ready": pid} | {"refused": reason}
    in  {"op": "node", "index", "name", "address", "prefix"}    out {"pid": holder} | {"refused": reason}
Its end ends the keeper.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import signal
import socket
import sys
from typing import Any

from chaos.clusters import rtnetlink
from chaos.clusters.contain import CLONE_NEWUSER, die_with_parent

CLONE_NEWNET = 0x40000000
BRIDGE, INTERFACE = "hub", "eth0"


def unshare(flags: int) -> None:
    """Enter new namespaces.

    Raises:
        OSError: the kernel refuses it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"unshare: {os.strerror(number)}")


class Keeper:
    """Answers requests, one at a time."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._cables = 0

    def serve(self, own_user: bool) -> None:
        """Until the other end closes."""
        try:
            self._enter(own_user)
        except OSError as error:
            self._say(refused=str(error))
            return
        self._say(ready=os.getpid())
        while (message := self._hear()) is not None:
            try:
                self._say(pid=self._node(message))
            except OSError as error:
                self._say(refused=str(error))

    def _enter(self, own_user: bool) -> None:
        if own_user:
            unshare(CLONE_NEWUSER)
            # The namespace's root: whatever is executed in here by this user may configure the network.
            self._say(unshared=os.getpid())
            if self._hear() is None:
                raise OSError("nobody mapped the users")
        unshare(CLONE_NEWNET)
        rtnetlink.link_up("lo")
        rtnetlink.add_bridge(BRIDGE)

    def _node(self, message: dict[str, Any]) -> int:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            try:
                ours.close()
                self._control.close()
                hold(theirs, message["address"], message["prefix"])
            finally:
                os._exit(1)
        theirs.close()
        with ours:
            try:
                _expect(ours, b"unshared")
                self._cables += 1
                # A new name for each cable: the kernel takes down a dead node's in its own time.
                digits = hashlib.sha256(message["name"].encode()).digest()[:5]
                mac = ":".join(["02", *(f"{digit:02x}" for digit in digits)])
                rtnetlink.add_cable(f"port{self._cables}", BRIDGE, INTERFACE, pid, mac)
                ours.send(b"cable")
                _expect(ours, b"up")
            except OSError:
                os.kill(pid, signal.SIGKILL)
                raise
        return pid

    def _say(self, **message: Any) -> None:
        self._control.send(json.dumps(message).encode())

    def _hear(self) -> dict[str, Any] | None:
        raw = self._control.recv(4096)
        return json.loads(raw) if raw else None


def hold(line: socket.socket, address: str, prefix: int) -> None:
    """Be a node's holder: enter its namespace, configure its end of the cable, and wait for the end."""
    die_with_parent()
    try:
        unshare(CLONE_NEWNET)
        line.send(b"unshared")
        if line.recv(64) != b"cable":
            return
        rtnetlink.link_up("lo")
        rtnetlink.add_address(INTERFACE, address, prefix)
        rtnetlink.link_up(INTERFACE)
        line.send(b"up")
    except OSError as error:
        line.send(str(error).encode())
        return
    line.close()
    while True:
        signal.pause()


def _expect(line: socket.socket, wanted: bytes) -> None:
    said = line.recv(4096)
    if said != wanted:
        raise OSError(said.decode() or "the holder ended before it was ready")


def main() -> None:
    """See the module's docstring."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # What a terminal sends is the tool's business, which then ends this process.
        signal.signal(number, signal.SIG_IGN)
    # Holders are reaped by the kernel.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    die_with_parent()
    Keeper(socket.socket(fileno=int(sys.argv[1]))).serve(sys.argv[2] == "own")


if __name__ == "__main__":
    main()
