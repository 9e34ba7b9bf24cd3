"""A client of torch's TCPStore in the standard library: enough to look at a store and to set a key.

The protocol is torch's own (TCPStoreBackend.hpp) and may change; `ping` is asked first, so that a server
that speaks another one is noticed and not written to. Used from the engine, from the reaper, and, where the
store is in another network namespace, in a process that enters it.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

_MAGIC = 0x3C85F7CE
_VALIDATE, _SET, _COMPARE_SET, _GET, _CHECK, _DELETE_KEY, _PING, _LIST_KEYS = 0, 1, 2, 3, 5, 8, 13, 17
# torch's own client puts this before every key.
_PREFIX = b"/"
# No value of a store is near this; a larger length means that the peer talks another protocol.
_LONGEST = 64 << 20
# Of what `set_back` keeps: length of the value that it gave, and whether there was one before.
_LENGTHS = struct.Struct("<Q?")


class StoreError(OSError):
    """The store did not answer, or not as a TCPStore does."""


class Store:
    """One connection to a store. Every call raises StoreError when it is not answered in time."""

    def __init__(self, address: str, port: int, timeout_s: float = 5.0) -> None:
        try:
            self._socket = socket.create_connection((address, port), timeout=timeout_s)
        except OSError as error:
            raise StoreError(f"{address}:{port}: {error}") from None
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.sendall(bytes([_VALIDATE]) + struct.pack("<I", _MAGIC))
            self._opening_s = self.ping()
        except OSError as error:
            self._socket.close()
            raise StoreError(f"{address}:{port}: {error}") from None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc: object) -> None:
        self._socket.close()

    def ping(self) -> float:
        """Ask for an echo; returns how long it took, seconds."""
        start, nonce = time.monotonic(), os.urandom(4)
        if self._ask(_PING, nonce, size=4) != nonce:
            raise StoreError("the peer does not answer as a TCPStore does")
        return time.monotonic() - start

    def slowest(self) -> float:
        """The longer of the first answer of this connection and one more, seconds."""
        return max(self._opening_s, self.ping())

    def keys(self) -> list[str]:
        """Every key, without torch's own prefix."""
        (count,) = struct.unpack("<Q", self._ask(_LIST_KEYS, size=8))
        found = [self._text() for _ in range(count)]
        return sorted(key[1:].decode(errors="surrogateescape") for key in found if key[:1] == _PREFIX)

    def get(self, key: str) -> bytes | None:
        """The value of a key; None if there is no such key, for which torch's client would wait."""
        name = _key(key)
        if self._ask(_CHECK, struct.pack("<Q", 1), name, size=1) != b"\0":
            return None
        self._send(_GET, name)
        return self._text()

    def set(self, key: str, value: bytes) -> None:
        """Set a key. Not answered by the store: a `ping` follows, so that it is known to be done."""
        self._send(_SET, _key(key), _bytes(value))
        self.ping()

    def swap(self, key: str, expected: bytes | None, value: bytes) -> bool:
        """Set a key if it has the expected value (None: if it is not there); whether it was set."""
        self._send(_COMPARE_SET, _key(key), _bytes(expected or b""), _bytes(value))
        return self._text() == value

    def delete(self, key: str) -> bool:
        """Delete a key; False if there was none."""
        return self._ask(_DELETE_KEY, _key(key), size=8) != bytes(8)

    # -- what a replay of earlier values does, in one connection so that little can come between its parts

    def set_back(self, pairs: Sequence[Sequence[Any]], prefix: str) -> list[list[Any]]:
        """Give keys the values in `pairs`; what each had, and gets, is kept under `prefix` + key.

        Returns:
            [key, value before or None, value given, value read afterwards] of each key that was changed.
        """
        changed = []
        for key, value in pairs:
            before = self.get(key)
            if before == value:
                continue
            self.set(prefix + key, _LENGTHS.pack(len(value), before is not None) + value + (before or b""))
            # Only if no one has set it since: what is kept is then really what was there.
            if self.swap(key, before, value):
                changed.append([key, before, value, self.get(key)])
            else:
                self.delete(prefix + key)
        return changed

    def give_back(self, key: str, kept_under: str) -> bool:
        """Take back what `set_back` did to one key; False if someone has set the key since."""
        kept = self.get(kept_under)
        if kept is None:
            return False
        size, was_there = _LENGTHS.unpack_from(kept)
        given, before = kept[_LENGTHS.size :][:size], kept[_LENGTHS.size + size :]
        back = self.get(key) == given and (self.swap(key, given, before) if was_there else self.delete(key))
        # Last: a restore that was cut off is begun again.
        self.delete(kept_under)
        return back

    def _ask(self, number: int, *parts: bytes, size: int) -> bytes:
        self._send(number, *parts)
        return self._read(size)

    def _send(self, number: int, *parts: bytes) -> None:
        try:
            self._socket.sendall(bytes([number]) + b"".join(parts))
        except OSError as error:
            raise StoreError(f"the store takes no request: {error}") from None

    def _text(self) -> bytes:
        (size,) = struct.unpack("<Q", self._read(8))
        if size > _LONGEST:
            raise StoreError("the peer does not answer as a TCPStore does")
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                part = self._socket.recv(size - len(data))
            except OSError as error:
                raise StoreError(f"the store does not answer: {error}") from None
            if not part:
                raise StoreError("the store closed the connection")
            data += part
        return bytes(data)


def _bytes(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def _key(key: str) -> bytes:
    return _bytes(_PREFIX + key.encode(errors="surrogateescape"))


# -- where the store is in another network namespace ---------------------------------------------------


def ask(
    pid: int, address: str, port: int, calls: Sequence[Sequence[Any]], timeout_s: float = 5.0
) -> list[Any]:
    """Carry out calls of `Store` in the network namespace of a process, in one connection.

    Args:
        pid: the store's host.
        calls: (method, arguments...); values are bytes or None.
        timeout_s: for each answer.

    Raises:
        StoreError: the store does not answer.
    """
    if _same_network(pid):
        return _carry_out(address, port, calls, timeout_s)
    where = {"pid": pid, "address": address, "port": port, "timeout_s": timeout_s}
    request = {**where, "calls": _packed(list(calls))}
    command = [sys.executable, "-I", "-S", os.path.abspath(__file__)]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=timeout_s * (len(calls) + 2),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise StoreError("the store does not answer") from None
    if done.returncode:
        raise StoreError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no answer")
    answers = _unpacked(json.loads(done.stdout))
    return list(answers)


def _same_network(pid: int) -> bool:
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino
    except OSError as error:
        raise StoreError(f"the store's host is gone: {error}") from None


def _carry_out(address: str, port: int, calls: Sequence[Sequence[Any]], timeout_s: float) -> list[Any]:
    with Store(address, port, timeout_s) as store:
        return [getattr(store, name)(*args) for name, *args in calls]


def _packed(value: Any) -> Any:
    """Bytes as JSON can carry them."""
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    return [_packed(item) for item in value] if isinstance(value, list | tuple) else value


def _unpacked(value: Any) -> Any:
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    return [_unpacked(item) for item in value] if isinstance(value, list) else value


def _enter(pid: int) -> None:
    """Enter the network namespace of a process; its user namespace first, where that is another one."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    for name, flag in (("user", 0x10000000), ("net", 0x40000000)):
        path = f"/proc/{pid}/ns/{name}"
        if os.stat(path).st_ino == os.stat(f"/proc/self/ns/{name}").st_ino:
            continue
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if libc.setns(fd, flag) != 0:
            raise StoreError(f"{path} may not be entered: {os.strerror(ctypes.get_errno())}")
        os.close(fd)


def main() -> int:
    """Carry out one request from stdin in the namespace that it names."""
    request = json.load(sys.stdin)
    try:
        _enter(request["pid"])
        calls = _unpacked(request["calls"])
        answers = _carry_out(request["address"], request["port"], calls, request["timeout_s"])
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    json.dump(_packed(answers), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
