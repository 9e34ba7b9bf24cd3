"""The process that looks at a network from inside its nodes, run as a program by `injectors.net.probe`.

It enters the network namespace of each node in turn, opens a TCP listener and a UDP socket there on
the node's own address, keeps them and leaves: a socket stays in the namespace in which it was made. So one
process has an ear at both ends of every way, sees by itself what arrived, and needs no clock but its own.

Lines of JSON on stdin and stdout; the first line in is the nodes and descriptors, every further one a
question. The end of stdin ends it: it can't outlive the tool.

Standard library only, and nothing of ours: it starts in 50 ms and runs as root of a foreign namespace.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000
Pair = tuple[int, int]


def syscall(name: str, *args: int) -> None:
    """Call setns or unshare.

    Raises:
        OSError: the kernel refuses it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


class Home:
    """A network namespace of this process alone: in a node's it would count as one of the node's own."""

    def __init__(self) -> None:
        syscall("unshare", CLONE_NEWNET)
        self._fd = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    @contextmanager
    def visiting(self, net: int) -> Iterator[None]:
        """In another namespace for the length of a `with`: a socket stays where it was made."""
        syscall("setns", net, CLONE_NEWNET)
        try:
            yield
        finally:
            syscall("setns", self._fd, CLONE_NEWNET)


def word(pair: Pair) -> str:
    return f"{pair[0]}>{pair[1]}"


class End:
    """One node as seen from here: its namespace, and its two ears."""

    def __init__(self, home: Home, index: int, address: str, net: int) -> None:
        self.index, self._home, self._net = index, home, net
        with home.visiting(net):
            self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        for sock in (self.udp, self.tcp):
            sock.bind((address, 0))
            sock.setblocking(False)
        self.tcp.listen(64)

    def dial(self, other: End) -> tuple[socket.socket, str | None]:
        """Begin a connection from this node to the other; the error, if it fails at once."""
        with self._home.visiting(self._net):
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        number = sock.connect_ex(other.tcp.getsockname())
        return sock, None if number in (0, errno.EINPROGRESS) else errno.errorcode.get(number, str(number))


class Held:
    """A connection between two nodes, both ends of it here."""

    def __init__(self, left: socket.socket, right: socket.socket) -> None:
        self.left, self.right = left, right


class Prober:
    """Answers questions about the ways between nodes."""

    def __init__(self, ends: list[End]) -> None:
        self.ends = {end.index: end for end in ends}
        self.held: dict[Pair, Held] = {}
        self._nonce = 0

    def reach(self, pairs: list[Pair], silent: list[Pair], settle_s: float, open_s: float) -> dict[str, Any]:
        """Who can be reached: a datagram one way, a new connection there and back.

        Args:
            silent: ways from which no answer is expected; they are given `settle_s`, the others `open_s`.
        """
        start = time.monotonic()
        self._drain()
        cut = set(silent)
        dialled = {pair: self.ends[pair[0]].dial(self.ends[pair[1]]) for pair in pairs}
        arrived: dict[Pair, float] = {}
        answers = {pair: error for pair, (_, error) in dialled.items() if error}
        calls = {pair: sock for pair, (sock, _) in dialled.items()}
        sent: dict[str, tuple[Pair, float]] = {}
        while True:
            now = time.monotonic()
            if not sent or now - max(t for _, t in sent.values()) > 0.1:
                self._send([pair for pair in pairs if pair not in arrived], sent)
            self._collect(sent, arrived)
            self._outcomes(calls, answers)
            open_ways = [p for p in pairs if p not in cut and p not in arrived]
            open_ways += [p for p in pairs if not {p, p[::-1]} & cut and p not in answers]
            missing = len(arrived) < len(pairs) or len(answers) < len(pairs)
            waited_s = time.monotonic() - start
            if not missing or waited_s > open_s or (not open_ways and waited_s > settle_s):
                break
            self._wait(0.02)
        for sock in calls.values():
            abandon(sock)
        return {
            word(pair): {"udp_ms": arrived.get(pair), "tcp": answers.get(pair, "silent")} for pair in pairs
        }

    def burst(self, pairs: list[Pair], count: int, gap_s: float, wait_s: float) -> dict[str, Any]:
        """Many datagrams each way: how many arrived, and after how long (milliseconds)."""
        self._drain()
        sent: dict[str, tuple[Pair, float]] = {}
        took: dict[Pair, list[float]] = {pair: [] for pair in pairs}
        for _ in range(count):
            self._send(pairs, sent)
            until = time.monotonic() + gap_s
            while (left := until - time.monotonic()) > 0:
                self._wait(left)
                self._times(sent, took)
        until = time.monotonic() + wait_s
        while any(len(took[pair]) < count for pair in pairs) and (left := until - time.monotonic()) > 0:
            self._wait(left)
            self._times(sent, took)
        return {word(pair): summary(sorted(took[pair]), count) for pair in pairs}

    def flow(self, pairs: list[Pair], skip_s: float, seconds: float) -> dict[str, Any]:
        """Bytes per second that a new connection carries, one way after the other.

        Args:
            skip_s: what comes first is not counted: a limit lets a bucketful pass.
        """
        found = {}
        for a, b in pairs:
            held = self._connect((a, b), 5.0)
            found[word((a, b))] = pour(held, skip_s, seconds) if held else {"bytes": 0, "bytes_s": 0.0}
        return found

    def hold(self, pairs: list[Pair]) -> dict[str, Any]:
        """Open a connection each way and keep it."""
        for pair in pairs:
            held = self._connect(pair, 5.0)
            if held is not None:
                self.held[pair] = held
        return {word(pair): pair in self.held for pair in pairs}

    def ask_held(self, wait_s: float) -> dict[str, Any]:
        """What has become of the connections that are kept: each end sends a byte to the other.

        Of each end: `ok` (the other's byte came), `silent`, or the name of the error.
        """
        state: dict[tuple[Pair, str], str] = {}
        for pair, held in self.held.items():
            for side, sock in (("left", held.left), ("right", held.right)):
                try:
                    sock.send(b"?")
                except BlockingIOError:
                    pass
                except OSError as error:
                    state[pair, side] = name_of(error)
        until = time.monotonic() + wait_s
        while True:
            for pair, held in self.held.items():
                for side, sock in (("left", held.left), ("right", held.right)):
                    if (pair, side) not in state and (seen := received(sock)):
                        state[pair, side] = seen
            waiting = [
                sock
                for pair, held in self.held.items()
                for side, sock in (("left", held.left), ("right", held.right))
                if (pair, side) not in state
            ]
            left = until - time.monotonic()
            if not waiting or left <= 0:
                break
            select.select(waiting, [], [], left)
        return {
            word(pair): {side: state.get((pair, side), "silent") for side in ("left", "right")}
            for pair in self.held
        }

    def own(self) -> list[list[Any]]:
        """The connections that are kept, as (address, port, address, port)."""
        return [[*held.left.getsockname(), *held.left.getpeername()] for held in self.held.values()]

    # -- helpers

    def _connect(self, pair: Pair, timeout_s: float) -> Held | None:
        """A connection of which both ends are here. Other callers at the listener are none of ours."""
        self._drain()
        (left, _), listener = self.ends[pair[0]].dial(self.ends[pair[1]]), self.ends[pair[1]].tcp
        until = time.monotonic() + timeout_s
        while (rest := until - time.monotonic()) > 0:
            if not select.select([listener], [], [], rest)[0]:
                break
            right, caller = listener.accept()
            if caller == left.getsockname():
                right.setblocking(False)
                return Held(left, right)
            right.close()
        left.close()
        return None

    def _send(self, pairs: list[Pair], sent: dict[str, tuple[Pair, float]]) -> None:
        for pair in pairs:
            self._nonce += 1
            nonce = f"{os.getpid()} {self._nonce}"
            a, b = self.ends[pair[0]], self.ends[pair[1]]
            sent[nonce] = (pair, time.monotonic())
            try:
                a.udp.sendto(nonce.encode(), b.udp.getsockname())
            except OSError:
                # No way at all (the link is down, a rule forbids it): it did not arrive.
                pass

    def _heard(self) -> list[str]:
        heard = []
        for end in self.ends.values():
            while True:
                try:
                    heard.append(end.udp.recv(256).decode(errors="replace"))
                except OSError:
                    # Nothing more, or the report that an earlier datagram found no one.
                    break
        return heard

    def _collect(self, sent: dict[str, tuple[Pair, float]], arrived: dict[Pair, float]) -> None:
        for nonce in self._heard():
            if nonce in sent:
                pair, t = sent[nonce]
                arrived.setdefault(pair, round((time.monotonic() - t) * 1e3, 3))

    def _times(self, sent: dict[str, tuple[Pair, float]], took: dict[Pair, list[float]]) -> None:
        for nonce in self._heard():
            if nonce in sent:
                pair, t = sent.pop(nonce)
                took[pair].append((time.monotonic() - t) * 1e3)

    def _outcomes(self, calls: dict[Pair, socket.socket], answers: dict[Pair, str]) -> None:
        waiting = {sock: pair for pair, sock in calls.items() if pair not in answers}
        if not waiting:
            return
        for sock in select.select([], list(waiting), [], 0)[1]:
            number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            answers[waiting[sock]] = "ok" if number == 0 else errno.errorcode.get(number, str(number))

    def _wait(self, at_most_s: float) -> None:
        select.select([end.udp for end in self.ends.values()], [], [], at_most_s)

    def _drain(self) -> None:
        """Forget what earlier questions left behind."""
        self._heard()
        for end in self.ends.values():
            while True:
                try:
                    end.tcp.accept()[0].close()
                except OSError:
                    break


def summary(took_ms: list[float], count: int) -> dict[str, Any]:
    """Of sorted times."""
    found: dict[str, Any] = {"sent": count, "received": len(took_ms)}
    if took_ms:
        found |= {
            "min_ms": round(took_ms[0], 3),
            "median_ms": round(took_ms[len(took_ms) // 2], 3),
            "max_ms": round(took_ms[-1], 3),
        }
    return found


def pour(held: Held, skip_s: float, seconds: float) -> dict[str, Any]:
    """Send as fast as the connection takes it, and count what arrives after the first `skip_s`."""
    data, got, start = bytes(1 << 16), 0, time.monotonic() + skip_s
    while (left := start + seconds - time.monotonic()) > 0:
        readable, writable, _ = select.select([held.right], [held.left], [], left)
        try:
            if writable:
                held.left.send(data)
            if readable:
                came = len(held.right.recv(1 << 20))
                got += came if time.monotonic() > start else 0
        except OSError:
            break
    took_s = time.monotonic() - start
    for sock in (held.left, held.right):
        abandon(sock)
    return {"bytes": got, "bytes_s": round(got / took_s, 1)}


def abandon(sock: socket.socket) -> None:
    """Close a connection without a farewell, so that nothing of it is on the way once the answer is given.

    What waits to be sent is dropped, and the other end need not answer: it would, up to 200 ms later, and
    its packet would count as one of the job's.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def received(sock: socket.socket) -> str | None:
    """`ok`, `closed`, the name of an error, or None where nothing came yet."""
    try:
        return "ok" if sock.recv(4096) else "closed"
    except BlockingIOError:
        return None
    except OSError as error:
        return name_of(error)


def name_of(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, str(error))


def answer(prober: Prober, question: dict[str, Any]) -> Any:
    """One question's answer."""
    for key in ("pairs", "silent"):
        if key in question:
            question[key] = [(int(a), int(b)) for a, b in question[key]]
    match question.pop("op"):
        case "reach":
            return prober.reach(**question)
        case "burst":
            return prober.burst(**question)
        case "flow":
            return prober.flow(**question)
        case "hold":
            return prober.hold(**question)
        case "held":
            return prober.ask_held(**question)
        case "own":
            return prober.own()
        case other:
            raise ValueError(f"no such question: {other}")


def main() -> None:
    """See the module's docstring."""
    start = json.loads(sys.stdin.readline())
    try:
        if start["user"] is not None:
            syscall("setns", start["user"], CLONE_NEWUSER)
        home = Home()
        prober = Prober([End(home, n["index"], n["address"], n["net"]) for n in start["nodes"]])
    except OSError as error:
        print(json.dumps({"refused": str(error)}), flush=True)
        return
    print(json.dumps({"ready": os.getpid()}), flush=True)
    for line in sys.stdin:
        try:
            said = {"answer": answer(prober, json.loads(line))}
        except OSError as error:
            said = {"refused": str(error)}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
