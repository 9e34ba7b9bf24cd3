"""The two ends of the line, in one process: what the kernel says about the peer is then about ourselves."""

from __future__ import annotations

import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from injectors import signals
from injectors.agent.link import Link
from injectors.agent_server import AgentServer, Reached, Report
from injectors.fault import FaultError

Beside = Callable[[Callable[[], Any]], threading.Thread]
POINT = {"rank": 2, "step": 5, "phase": "backward", "generation": 1, "event": None, "fields": {"a": 1}}


class Engine:
    """Answers as it is told and remembers."""

    def __init__(self, folder: Path) -> None:
        self.answer: Callable[[Reached], str] = lambda reached: "go"
        self.reached: list[Reached] = []
        self.reports: list[Report] = []
        self.server = AgentServer(folder / "private" / "agent", self._reach, self.reports.append)
        self.server.start()

    def _reach(self, reached: Reached) -> str:
        self.reached.append(reached)
        return self.answer(reached)

    def wait_report(self, op: str) -> Report:
        limit = time.monotonic() + 5
        while time.monotonic() < limit:
            for report in self.reports:
                if report.op == op:
                    return report
            time.sleep(0.002)
        raise AssertionError(f"no report {op!r} in {self.reports}")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = Engine(tmp_path)
    yield made
    made.server.stop()


@pytest.fixture
def link(engine: Engine) -> Iterator[Link]:
    made = Link(str(engine.server.socket_path))
    yield made
    made.close()


def test_no_one_else_may_connect(engine: Engine) -> None:
    path = engine.server.socket_path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(FaultError, match="others may enter it\n  mend: chmod 700"):
        AgentServer(tmp_path / "open" / "agent", lambda reached: "go", lambda report: None).start()


def test_a_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FaultError, match="too long for a socket"):
        AgentServer(tmp_path / ("x" * 120), lambda reached: "go", lambda report: None).start()


@pytest.mark.parametrize("answer", ["go", "skip"])
def test_the_agent_gets_the_answer(engine: Engine, link: Link, answer: str) -> None:
    engine.answer = lambda reached: answer
    assert link.reach("f1", POINT) == answer
    reached = engine.reached[0]
    assert (reached.fault, reached.rank, reached.step, reached.phase) == ("f1", 2, 5, "backward")
    assert reached.fields == {"a": 1}


def test_the_kernel_says_who_is_there(engine: Engine, link: Link) -> None:
    link.reach("f1", {**POINT, "pid": 1})
    victim = engine.reached[0].victim()
    assert (victim.pid, victim.rank, victim.fault) == (os.getpid(), 2, "f1")
    assert victim.start_ticks == signals.start_ticks(os.getpid())


def test_ranks_are_known_while_they_are_connected(engine: Engine, link: Link) -> None:
    assert link.connect()
    link.send("hello", rank=3)
    engine.wait_report("hello")
    assert engine.server.live == {3: os.getpid()}
    found = engine.server.victim(3)
    assert found is not None
    assert found.pid == os.getpid()
    assert engine.server.victim(0) is None
    link.close()
    engine.wait_report("gone")
    assert engine.server.live == {}


def test_act_returns_what_the_agent_reports(engine: Engine, link: Link) -> None:
    evidence = []

    def answer(reached: Reached) -> str:
        evidence.append(reached.channel.act(timeout_s=5.0))
        # The answer was given; a second one changes nothing.
        return "skip"

    engine.answer = answer
    assert link.reach("f1", POINT) == "go"
    link.send("fired", fault="f1", evidence={"what": "did it", "proven": True, "data": {"n": 1}})
    report = engine.wait_report("fired")
    assert evidence[0].what == "did it"
    assert evidence[0].proven
    assert evidence[0].source == "agent"
    assert report.evidence == evidence[0]


def test_act_does_not_wait_for_ever(engine: Engine, link: Link) -> None:
    evidence = []

    def answer(reached: Reached) -> str:
        evidence.append(reached.channel.act(timeout_s=0.05))
        return "go"

    engine.answer = answer
    assert link.reach("f1", POINT) == "go"
    limit = time.monotonic() + 5
    while not evidence and time.monotonic() < limit:
        time.sleep(0.002)
    assert not evidence[0].proven
    # The line is still good.
    engine.answer = lambda reached: "skip"
    assert link.reach("f2", POINT) == "skip"


def test_a_callback_that_fails_lets_the_agent_go_and_is_told(engine: Engine, link: Link) -> None:
    def answer(reached: Reached) -> str:
        raise KeyError("x")

    engine.answer = answer
    assert link.reach("f1", POINT) == "skip"
    assert engine.wait_report("error").data == {"error": "KeyError('x')"}


def test_a_wait_ends_when_it_is_undone(engine: Engine, link: Link, beside: Beside) -> None:
    assert link.reach("f1", POINT) == "go"
    ended: list[str] = []
    waiting = beside(lambda: ended.append(link.wait_undo("f1", 30.0)))
    assert engine.server.send_undo("f1")
    waiting.join(5)
    assert ended == ["undo"]
    # Told twice, nothing happens; the fault is over.
    assert engine.server.send_undo("f1")
    assert link.wait_undo("f1", 30.0) == "undo"


def test_undo_of_a_fault_that_no_agent_holds_says_so(engine: Engine) -> None:
    assert not engine.server.send_undo("f9")


def test_a_wait_ends_when_the_time_is_up(engine: Engine, link: Link) -> None:
    start = time.monotonic()
    assert link.wait_undo("f1", 0.05) == "elapsed"
    assert 0.05 <= time.monotonic() - start < 1.0


def test_a_wait_ends_when_the_tool_is_gone(engine: Engine, link: Link, beside: Beside) -> None:
    link.reach("f1", POINT)
    ended: list[str] = []
    waiting = beside(lambda: ended.append(link.wait_undo("f1", None)))
    time.sleep(0.02)
    engine.server.stop()
    waiting.join(5)
    assert ended == ["gone"]
    assert link.reach("f2", POINT) == "gone"


def test_a_blocked_agent_is_let_go_when_the_tool_dies(engine: Engine, link: Link, beside: Beside) -> None:
    blocked = threading.Event()

    def answer(reached: Reached) -> str:
        blocked.set()
        time.sleep(0.2)
        return "go"

    engine.answer = answer
    ended: list[str] = []
    waiting = beside(lambda: ended.append(link.reach("f1", POINT)))
    blocked.wait(5)
    engine.server.stop()
    waiting.join(5)
    assert ended == ["gone"]


def test_no_tool_no_fault(tmp_path: Path) -> None:
    link = Link(str(tmp_path / "nobody"))
    assert link.reach("f1", POINT) == "gone"
    assert link.wait_undo("f1", 1.0) == "gone"


def test_a_step_that_the_engine_read_reaches_the_agent(engine: Engine) -> None:
    steps: list[int] = []
    link = Link(str(engine.server.socket_path), steps.append)
    assert link.connect()
    link.send("hello", rank=0)
    engine.wait_report("hello")
    engine.server.send_step(7)
    engine.server.send_step(8, rank=1)
    limit = time.monotonic() + 5
    while not steps and time.monotonic() < limit:
        link.drain()
    assert steps == [7]
    link.close()


def test_another_thread_may_hold_the_fault(engine: Engine, link: Link, beside: Beside) -> None:
    """A kernel on a device is ended by a thread with a line of its own."""
    link.reach("f1", POINT)
    other = Link(str(engine.server.socket_path))
    assert other.connect()
    other.send("holding", fault="f1")
    ended: list[str] = []
    waiting = beside(lambda: ended.append(other.wait_undo("f1", 10.0)))
    limit = time.monotonic() + 5
    while waiting.is_alive() and time.monotonic() < limit:
        engine.server.send_undo("f1")
        time.sleep(0.01)
    assert ended == ["undo"]
    other.close()


def test_settle_waits_for_a_callback_under_way(engine: Engine, link: Link, beside: Beside) -> None:
    entered, proceed = threading.Event(), threading.Event()

    def answer(reached: Reached) -> str:
        entered.set()
        proceed.wait(5)
        return "go"

    engine.answer = answer
    waiting = beside(lambda: link.reach("f1", POINT))
    assert entered.wait(5)
    assert not engine.server.settle(timeout_s=0.05)
    proceed.set()
    assert engine.server.settle(timeout_s=5.0)
    waiting.join(5)


def test_stopping_twice_is_harmless_and_removes_the_socket(engine: Engine) -> None:
    engine.server.stop()
    engine.server.stop()
    assert not engine.server.socket_path.exists()


def test_garbage_does_not_stop_the_server(engine: Engine, link: Link) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as raw:
        raw.connect(str(engine.server.socket_path))
        raw.send(b"\xff not json")
        engine.wait_report("gone")
    assert link.reach("f1", POINT) == "go"
