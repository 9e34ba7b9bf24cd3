"""A job on several "nodes" of this host: one launcher each, and a line between them that a test can cut."""

from __future__ import annotations

import os
import secrets
import select
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recovery.launch import Job
from tests.recovery.jobs import ROOT, TINY_GPT, Launcher, Outcome, Running


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Cable:
    """A TCP relay in front of node 0's port: it can be cut (nothing passes) and its connections reset."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._cut = False
        self._reset = False
        self._closed = False
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Nothing passes any more, and no connection ends: what the ends see of a partition."""
        self._cut = True
        os.write(self._wake_write, b"!")

    def heal(self) -> None:
        self._cut = False
        os.write(self._wake_write, b"!")

    def reset(self) -> None:
        """End all connections; new ones are welcome."""
        self._reset = True
        os.write(self._wake_write, b"!")

    def close(self) -> None:
        self._closed = True
        os.write(self._wake_write, b"!")
        self._thread.join()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _carry(self) -> None:
        while not self._closed:
            watched = [] if self._cut else [self._server, *self._pairs]
            readable = select.select([*watched, self._wake_read], [], [])[0]
            if self._wake_read in readable:
                os.read(self._wake_read, 64)
                if self._reset:
                    self._reset = False
                    self._drop_all()
                continue
            for sock in readable:
                if sock is self._server:
                    self._connect()
                elif sock in self._pairs:
                    self._pass_on(sock)
        self._drop_all()
        self._server.close()

    def _connect(self) -> None:
        near, _ = self._server.accept()
        try:
            far = socket.create_connection(("127.0.0.1", self._to))
        except ConnectionRefusedError:
            near.close()  # node 0 has ended
            return
        self._pairs[near], self._pairs[far] = far, near

    def _pass_on(self, sock: socket.socket) -> None:
        other = self._pairs[sock]
        try:
            data = sock.recv(1 << 16)
            if data:
                other.sendall(data)
                return
        except OSError:
            pass  # one end is gone, so the other goes too
        for end in (sock, other):
            del self._pairs[end]
            end.close()

    def _drop_all(self) -> None:
        for sock in self._pairs:
            sock.close()
        self._pairs.clear()


class Fleet(Running):
    """A live job on several nodes; `job` is node 0's."""

    def __init__(
        self,
        jobs: list[Job],
        path: Path,
        deadline: float,
        cables: list[Cable | None],
        start: Callable[[int], Job],
    ) -> None:
        super().__init__(jobs[0], path, deadline)
        self.jobs, self.cables, self._start = jobs, cables, start

    def cable(self, node: int) -> Cable:
        cable = self.cables[node]
        assert cable is not None
        return cable

    def restart(self, node: int) -> None:
        self.jobs[node] = self._start(node)


def run_fleet(
    launcher: Launcher,
    nodes: int,
    per_node: int,
    steps: int,
    strike: Callable[[Fleet], None] | None = None,
    *,
    options: list[str] | None = None,
    node_options: dict[int, list[str]] | None = None,
    cabled: tuple[int, ...] = (),
    timeout_s: float = 120,
    secret_of: Callable[[int], str] | None = None,
) -> tuple[Outcome, list[int | None]]:
    """Launch `nodes` x `per_node` ranks, let `strike` disturb them; returns outcome and exit codes."""
    launcher.count += 1
    base = launcher.folder / f"fleet{launcher.count}"
    base.mkdir()
    events = base / "events.jsonl"
    events.touch()
    port = free_port()
    secret = secrets.token_hex(16)
    cables = [Cable(port) if node in cabled else None for node in range(nodes)]

    def start(node: int) -> Job:
        token = base / f"token{node}"
        token.write_text(secret_of(node) if secret_of else secret)
        token.chmod(0o600)
        cable = cables[node]
        endpoint = f"127.0.0.1:{cable.port if cable else port}"
        env: dict[str, str] = {
            "RECOVERY_EVENTS": str(events),
            "RECOVERY_DIGEST": "1",
            "RECOVERY_TOKEN_FILE": str(token),
        }
        args = ["--nnodes", str(nodes), "--node-rank", str(node), "--rdzv-endpoint", endpoint]
        args += ["--nproc-per-node", str(per_node), *(options or []), *(node_options or {}).get(node, [])]
        args += [str(TINY_GPT), "--steps", str(steps)]
        with open(base / f"out{node}", "ab") as out, open(base / f"err{node}", "ab") as err:
            return launcher.zygote.launch(args, env, str(ROOT), out.fileno(), err.fileno())

    jobs = [start(node) for node in range(nodes)]
    fleet = Fleet(jobs, events, time.monotonic() + timeout_s, cables, start)
    try:
        if strike is not None:
            strike(fleet)
        fleet.until_end()
        for job in fleet.jobs:
            job.wait(20)
    finally:
        for cable in cables:
            if cable is not None:
                cable.close()
        codes = [job.poll() for job in fleet.jobs]
        for job in fleet.jobs:
            job.kill()
            job.wait(10)
    fleet.read()
    fleet.close()
    text = {name: _all(base, name, nodes) for name in ("out", "err")}
    return Outcome(codes[0], fleet.events, text["out"], text["err"]), codes


def _all(base: Path, name: str, nodes: int) -> str:
    return "".join((base / f"{name}{node}").read_text() for node in range(nodes))


def node_of(outcome: Outcome, rank: int) -> list[Any]:
    """The nodes on which a rank's processes were, in order."""
    return [
        event["node"]
        for event in outcome.events
        if event["event"] in ("worker.start", "worker.promoted") and event.get("rank") == rank
    ]
