"""The device's hang against a STAND-IN for CUDA: it tests the host's part, not a kernel.

The real one needs an accelerator; see the test marked gpu.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from injectors.agent import cuda
from injectors.agent.link import Link
from injectors.agent_server import AgentServer, Report


class StandInStream:
    """Busy until the word is set."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def query(self) -> bool:
        return self.released.is_set()

    def synchronize(self) -> None:
        assert self.released.wait(10)


class StandInWord:
    def __init__(self, stream: StandInStream) -> None:
        self.stream = stream

    def fill_(self, value: int) -> None:
        self.stream.released.set()


class StandInTorch:
    """As much of torch as `injectors.agent.cuda` uses."""

    int32 = "int32"

    def __init__(self, compiles: bool = True) -> None:
        self.stream = StandInStream()
        self.launched: list[Any] = []
        self.cuda = SimpleNamespace(
            is_available=lambda: True,
            is_initialized=lambda: True,
            current_stream=lambda: self.stream,
            current_device=lambda: 0,
            get_device_properties=lambda device: SimpleNamespace(clock_rate=1_000_000),
            _sleep=lambda cycles: self.launched.append(("sleep", cycles)) or self.stream.released.set(),
        )
        if compiles:
            self.cuda._compile_kernel = lambda source, name: lambda *args: self.launched.append((name, args))

    def zeros(self, size: int, dtype: str, pin_memory: bool) -> StandInWord:
        assert pin_memory
        return StandInWord(self.stream)


class Agent:
    def __init__(self, path: str) -> None:
        self.link = Link(path)
        self.said: list[tuple[Any, ...]] = []

    def report(self, op: str, armed: Any, what: str, proven: bool = True, **data: Any) -> None:
        self.said.append((op, what, proven, data))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[SimpleNamespace]:
    reports: list[Report] = []
    server = AgentServer(tmp_path / "private" / "agent", lambda reached: "go", reports.append)
    server.start()
    yield SimpleNamespace(server=server, reports=reports, agent=Agent(str(server.socket_path)))
    server.stop()


def wait_report(engine: Any, op: str) -> Report:
    limit = time.monotonic() + 5
    while time.monotonic() < limit:
        found = [report for report in engine.reports if report.op == op]
        if found:
            return found[0]
        time.sleep(0.002)
    raise AssertionError(f"no {op} in {engine.reports}")


ARMED: Any = SimpleNamespace(id="f1")


def test_the_stream_is_held_until_the_engine_releases_it(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = StandInTorch()
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    cuda.hold(engine.agent, ARMED, 30.0)
    op, what, proven, data = engine.agent.said[0]
    assert (op, what, proven, data["way"]) == ("fired", "a kernel occupies the stream", True, "kernel")
    assert stand_in.launched[0][0] == "torch_chaos_hold"
    assert stand_in.launched[0][1][2][1] == 30_000_000_000
    limit = time.monotonic() + 5
    while not stand_in.stream.query() and time.monotonic() < limit:
        engine.server.send_undo("f1")
        time.sleep(0.005)
    undone = wait_report(engine, "undone")
    assert undone.evidence is not None
    assert undone.evidence.data["reason"] == "undo"


def test_the_stream_is_let_go_when_the_tool_is_gone(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = StandInTorch()
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    cuda.hold(engine.agent, ARMED, 30.0)
    engine.server.stop()
    assert stand_in.stream.released.wait(5)


def test_the_stream_is_let_go_when_the_time_is_up(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = StandInTorch()
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    cuda.hold(engine.agent, ARMED, 0.05)
    undone = wait_report(engine, "undone")
    assert undone.evidence is not None
    assert undone.evidence.data["reason"] == "elapsed"


def test_without_a_compiler_a_sleep_of_known_length_stands_in(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = StandInTorch(compiles=False)
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    cuda.hold(engine.agent, ARMED, 0.05)
    assert stand_in.launched == [("sleep", 50_000_000)]
    assert engine.agent.said[0][3]["way"].startswith("sleep (AttributeError")
    wait_report(engine, "undone")


def test_a_process_without_cuda_reports_that_it_can_not() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    agent = Agent("/nonexistent")
    cuda.hold(agent, ARMED, 1.0)  # type: ignore[arg-type]
    assert agent.said == [("failed", "CUDA is not in use in this process", False, {})]


@pytest.mark.gpu
def test_a_real_kernel_holds_its_stream_and_lets_go() -> None:
    torch.zeros(1, device="cuda")
    release = cuda.launch(torch, 20.0)
    assert not torch.cuda.current_stream().query()
    time.sleep(0.1)
    assert not torch.cuda.current_stream().query()
    release()
    torch.cuda.current_stream().synchronize()
