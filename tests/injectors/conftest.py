"""A rig for faults: real processes with the agent in them, and an engine's stand-in that keeps the order.

Ranks are forked from one warm template, so that a test costs a tenth of a second and not an import of torch.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from injectors import boot, catalogue, signals
from injectors.agent_server import AgentServer, Reached, Report
from injectors.fault import Evidence, UndoRecord, Victim

JOBS = Path(__file__).parent / "jobs"


@dataclass
class Outcome:
    """What a job left behind."""

    codes: list[int] = field(default_factory=list)
    reached: list[Reached] = field(default_factory=list)
    fired: dict[str, Evidence] = field(default_factory=dict)
    verified: dict[str, Evidence] = field(default_factory=dict)
    records: dict[str, UndoRecord | None] = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    output: str = ""
    seconds: float = 0.0

    def commits(self, rank: int) -> list[dict[str, Any]]:
        return [e for e in self.events if e["event"] == "step.commit" and e["rank"] == rank]

    def report(self, op: str, fault: str) -> Report:
        return next(r for r in self.reports if r.op == op and r.fault == fault)


class Template:
    """The warm process that ranks are forked from."""

    def __init__(self) -> None:
        env = boot.environment("/nonexistent", {**os.environ, "OMP_NUM_THREADS": "1"})
        del env[boot.VARIABLE]
        self._process = subprocess.Popen(
            [sys.executable, str(JOBS / "template.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        self.threads = self._answer()["ready"]

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def launch(self, request: dict[str, Any]) -> list[int]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()["pids"]

    def wait(self) -> list[int]:
        return self._answer()["codes"]

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()


@pytest.fixture(scope="session")
def template() -> Iterator[Template]:
    made = Template()
    yield made
    made.close()


class Rig:
    """Runs one job with faults, and does with each what the engine does."""

    def __init__(self, folder: Path, template: Template) -> None:
        self.folder = folder
        self._template = template
        self._plan: dict[str, dict[str, Any]] = {}
        self._done: set[str] = set()
        self.outcome = Outcome()
        self.on_fired: Callable[[Reached, Rig], None] = lambda reached, rig: None
        """Called when a fault has fired and was verified, before the agent is let go."""
        self.on_hit: Callable[[Reached], str | None] = lambda reached: None
        """Called first; an answer other than None is given to the agent at once."""
        self.server = AgentServer(folder / "private" / "agent", self._on_reached, self._on_report)

    def configure(self, faults: list[dict[str, Any]], **settings: Any) -> dict[str, str]:
        """Write agent.json and start the server; returns the variables that a rank needs."""
        for number, fault in enumerate(faults, 1):
            fault.setdefault("id", f"f{number}")
        self._plan = {fault["id"]: fault for fault in faults}
        path = self.folder / "agent.json"
        config = {
            "protocol": 1,
            "run": "test",
            "socket": str(self.server.socket_path),
            "events": str(self.folder / "events.jsonl"),
            "observe": True,
            "faults": faults,
            **settings,
        }
        boot.write_config(path, config)
        self.server.start()
        return {boot.VARIABLE: str(path)}

    def run(
        self,
        job: str,
        *args: Any,
        faults: list[dict[str, Any]] | None = None,
        world: int = 2,
        **settings: Any,
    ) -> Outcome:
        """Run a job of forked ranks to its end."""
        env = self.configure(faults or [], **settings)
        port = _free_port()
        ranks = [
            {
                **env,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(world),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            }
            for rank in range(world)
        ]
        start = time.monotonic()
        request = {
            "script": str(JOBS / job),
            "args": [str(arg) for arg in args],
            "ranks": ranks,
            "stdout": str(self.folder / "output.txt"),
        }
        self.pids = self._template.launch(request)
        self.outcome.codes = self._template.wait()
        self.outcome.seconds = time.monotonic() - start
        return self.finish()

    def finish(self) -> Outcome:
        """Stop the server and gather what the job wrote."""
        assert self.server.settle()
        self.server.stop()
        events, output = self.folder / "events.jsonl", self.folder / "output.txt"
        if events.exists():
            self.outcome.events = [json.loads(line) for line in events.read_text().splitlines()]
        if output.exists():
            self.outcome.output = output.read_text()
        return self.outcome

    def _on_reached(self, reached: Reached) -> str:
        self.outcome.reached.append(reached)
        answer = self.on_hit(reached)
        if answer is not None:
            return answer
        if reached.fault in self._done:
            return "skip"
        self._done.add(reached.fault)
        plan = self._plan[reached.fault]
        fault = catalogue.get(plan["name"]).from_params(plan.get("params", {}))
        victim = reached.victim()
        self.outcome.records[reached.fault] = fault.undo_record(victim)
        fired = fault.inject(victim, reached.channel)
        self.outcome.fired[reached.fault] = fired
        self.outcome.verified[reached.fault] = fault.verify(victim, fired)
        self.on_fired(reached, self)
        return "go"

    def _on_report(self, report: Report) -> None:
        self.outcome.reports.append(report)

    def fault(self, fault_id: str) -> Any:
        plan = self._plan[fault_id]
        return catalogue.get(plan["name"]).from_params(plan.get("params", {}))


@pytest.fixture
def rig(tmp_path: Path, template: Template) -> Iterator[Rig]:
    made = Rig(tmp_path, template)
    yield made
    made.server.stop()


@pytest.fixture
def sleeper() -> Iterator[Victim]:
    """A process that does nothing, as a victim."""
    process = subprocess.Popen(["sleep", "60"])
    ticks = signals.start_ticks(process.pid)
    assert ticks is not None
    yield Victim(pid=process.pid, start_ticks=ticks, rank=0, fault="f1")
    process.kill()
    process.wait()


@pytest.fixture
def dead() -> Victim:
    """A process that has ended and was reaped, as a victim."""
    process = subprocess.Popen(["sleep", "60"])
    ticks = signals.start_ticks(process.pid)
    process.kill()
    process.wait()
    assert ticks is not None
    return Victim(pid=process.pid, start_ticks=ticks, rank=0, fault="f1")


@pytest.fixture
def stranger(sleeper: Victim) -> Victim:
    """A victim whose pid was given to another process since."""
    return Victim(pid=sleeper.pid, start_ticks=sleeper.start_ticks - 1, rank=0, fault="f1")


def at(name: str, rank: int, params: dict[str, Any] | None = None, **when: Any) -> dict[str, Any]:
    """A planned fault."""
    return {"name": name, "where": {"rank": rank}, "when": when, "params": params or {}}


@pytest.fixture
def planned() -> Callable[..., dict[str, Any]]:
    return at


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def background(target: Callable[[], Any]) -> threading.Thread:
    """Run something beside the test; the caller joins it."""
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


@pytest.fixture
def beside() -> Callable[[Callable[[], Any]], threading.Thread]:
    return background
