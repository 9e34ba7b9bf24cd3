"""The process that delays, loses or slows packets in user space; run as a program by `injectors.net.relay`.

It makes a pair of virtual interfaces: one end in the node, the other in a network namespace that this process
alone lives in. Host routes in the node send what goes to certain peers into the pair; here it is read, held
back or thrown away, and written to the node's real interface as it came. So every packet is treated, of
connections old and new, and neither nft nor a qdisc is needed. When this process ends, by whatever cause, its
namespace goes, with it the pair, with the pair the routes: the kernel heals the network by itself.

Lines of JSON: the first in says what to do, each further one asks for the counts. The end of stdin ends it.

Standard library only.
"""

from __future__ import annotations

import collections
import ctypes
import json
import os
import random
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000
ETH_P_IP = 0x0800
SOL_PACKET, PACKET_STATISTICS, PACKET_VNET_HDR = 263, 6, 15
# Behind the header that tells of segments and checksums still to be made, a packet may be 64 KiB long.
LONGEST = (1 << 16) + 256
# A queue that is longer than this drops its newest, as a switch does.
QUEUE_BYTES = 32 << 20
PEER_LINK = "relay"


def syscall(name: str, *args: int) -> None:
    """Call setns or unshare.

    Raises:
        OSError: the kernel refuses it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def run(words: list[str], before: Callable[[], None] | None = None) -> None:
    """Run a command.

    Raises:
        OSError: it failed; the message is its own.
    """
    # The child enters the node's namespace before it starts `ip`; this process has one thread.
    done = subprocess.run(words, capture_output=True, text=True, preexec_fn=before, timeout=20, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")


class Relay:
    """What goes to the peers passes through here."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        if wanted["user"] is not None:
            syscall("setns", wanted["user"], CLONE_NEWUSER)
        self._node = int(wanted["net"])
        syscall("setns", self._node, CLONE_NEWNET)
        self._out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._out.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        self._out.bind((wanted["interface"], 0))
        syscall("unshare", CLONE_NEWNET)
        self._in = self._pair(wanted)
        self._delay_s, self._jitter_s = float(wanted["delay_s"]), float(wanted["jitter_s"])
        self._loss, self._rate_bytes_s = float(wanted["loss"]), float(wanted["rate_bytes_s"])
        self._rng = random.Random(wanted["seed"])
        self._waiting: collections.deque[tuple[float, bytes]] = collections.deque()
        self._queued = 0
        self._free_t = 0.0
        self.counts = {"passed": 0, "dropped": 0, "overrun": 0}

    def _pair(self, wanted: dict[str, Any]) -> socket.socket:
        """Make the pair, and turn the peers' packets into it as the last act."""
        link = wanted["link"]

        def in_node(*words: str) -> None:
            run(["ip", *words], lambda: syscall("setns", self._node, CLONE_NEWNET))

        made = ["type", "veth", "peer", "name", PEER_LINK, "netns", str(os.getpid())]
        in_node("link", "add", link, "address", wanted["mac"], "mtu", str(wanted["mtu"]), *made)
        in_node("link", "set", link, "alias", wanted["remark"])
        in_node("link", "set", link, "up")
        run(["ip", "link", "set", PEER_LINK, "up"])
        inlet = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP))
        inlet.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        inlet.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
        inlet.bind((PEER_LINK, ETH_P_IP))
        inlet.setblocking(False)
        for peer in wanted["peers"]:
            # With the peer's own address on the frame it can be put on the real wire as it is.
            in_node("neigh", "add", peer["address"], "lladdr", peer["mac"], "dev", link, "nud", "permanent")
        for peer in wanted["peers"]:
            in_node("route", "add", f"{peer['address']}/32", "dev", link, "src", wanted["address"])
        return inlet

    def take(self) -> None:
        """Read all that has come, and decide about each."""
        while True:
            try:
                frame = self._in.recv(LONGEST)
            except BlockingIOError:
                return
            except OSError as error:
                # Its end in the node was removed, and this one with it: there is nothing left to relay.
                raise SystemExit(0) from error
            if self._rng.random() < self._loss or self._queued > QUEUE_BYTES:
                self.counts["dropped"] += 1
                continue
            now = time.monotonic()
            due = now + self._delay_s + self._rng.uniform(-self._jitter_s, self._jitter_s)
            if self._rate_bytes_s:
                self._free_t = max(self._free_t, now) + len(frame) / self._rate_bytes_s
                due = max(due, self._free_t)
            if self._waiting:
                # A wire does not reorder.
                due = max(due, self._waiting[-1][0])
            self._waiting.append((due, frame))
            self._queued += len(frame)

    def give(self) -> float | None:
        """Send what is due; returns how long the next one waits, in seconds."""
        while self._waiting:
            due, frame = self._waiting[0]
            if (left := due - time.monotonic()) > 0:
                return left
            self._waiting.popleft()
            self._queued -= len(frame)
            try:
                self._out.send(frame)
                self.counts["passed"] += 1
            except OSError:
                # The real interface is down or full: lost, as any packet would be.
                self.counts["dropped"] += 1
        return None

    def serve(self) -> None:
        """Until stdin ends."""
        watched = [self._in, sys.stdin.buffer]
        while True:
            ready = select.select(watched, [], [], self.give())[0]
            if self._in in ready:
                self.take()
            if sys.stdin.buffer in ready:
                if not os.read(0, 4096):
                    return
                _, overrun = struct.unpack("II", self._in.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
                self.counts["overrun"] += overrun
                print(json.dumps({"answer": self.counts}), flush=True)


def main() -> None:
    """See the module's docstring."""
    # Byte by byte: what follows the first line must stay in the pipe for `serve`.
    line = b""
    while not line.endswith(b"\n"):
        data = os.read(0, 1)
        if not data:
            return
        line += data
    try:
        relay = Relay(json.loads(line))
    except OSError as error:
        print(json.dumps({"refused": str(error)}), flush=True)
        return
    print(json.dumps({"ready": os.getpid()}), flush=True)
    relay.serve()


if __name__ == "__main__":
    main()
