"""The desk: a fault fires once, its undo is on disk first, and every stage leaves an event."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from chaos.plan import PlannedFault
from chaos.runner.desk import Desk, Sight
from chaos.runner.events import EventLog
from injectors import signals
from injectors.agent_server import Reached, Report
from injectors.catalogue import CATALOGUE
from injectors.fault import Evidence


class Line:
    """The agent's line: records what it was told, and acts as told by the test."""

    def __init__(self, acts: Evidence | None = None) -> None:
        self.acts, self.said = acts, list[str]()

    def act(self, timeout_s: float = 10.0) -> Evidence:
        self.said.append("act")
        assert self.acts is not None
        return self.acts

    def answer(self, word: str) -> bool:
        self.said.append(word)
        return True


class Journal:
    """Keeps what would be on disk, with the moment."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def undo(self, key: str, record: dict[str, Any]) -> None:
        self.lines.append(("undo", key))

    def undone(self, key: str, by: str) -> None:
        self.lines.append(("undone", key))


class Bench:
    """A desk with fakes around it and real processes as victims."""

    def __init__(self, tmp_path: Path) -> None:
        self.path = tmp_path / "events.jsonl"
        self.journal = Journal()
        self.victims: dict[int, subprocess.Popen[bytes]] = {}
        self.first_commit_t: float | None = None
        self.nodes: Any = None
        self.desk: Desk

    def open(self, *planned: PlannedFault, heal_s: float = 10.0, by_line: bool = False) -> Desk:
        sight = Sight(self.live, lambda: self.first_commit_t, lambda fault: True, self.nodes)
        log = EventLog(self.path)
        self.desk = Desk("s", list(planned), log, self.journal, sight, lambda: None, heal_s, by_line=by_line)
        self.desk.arm()
        return self.desk

    def victim(self, rank: int) -> subprocess.Popen[bytes]:
        self.victims[rank] = subprocess.Popen(["sleep", "30"])
        return self.victims[rank]

    def live(self) -> dict[int, tuple[int, int]]:
        found = {}
        for rank, process in self.victims.items():
            ticks = signals.start_ticks(process.pid)
            if ticks is not None and signals.is_alive(process.pid, ticks):
                found[rank] = (process.pid, ticks)
        return found

    def reached(
        self, fault: str, rank: int | None, line: Line, event: str | None = None, **fields: Any
    ) -> str:
        pid, ticks = self.live().get(rank, (1, 1)) if rank is not None else (1, 1)
        return self.desk.on_reached(
            Reached(fault, pid, ticks, rank, 1, 7, "backward", event, MappingProxyType(fields), None, line)  # type: ignore[arg-type]  # a fake line
        )

    def stages(self, fault: str = "f1") -> list[str]:
        lines = [json.loads(text) for text in self.path.read_text().splitlines()]
        return [e["event"].removeprefix("fault.") for e in lines if e.get("fault") == fault]

    def said(self, event: str) -> dict[str, Any]:
        lines = [json.loads(text) for text in self.path.read_text().splitlines()]
        found: dict[str, Any] = next(e for e in lines if e["event"] == event)
        return found


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    for process in made.victims.values():
        process.kill()
        process.wait()


def planned(
    name: str = "process.kill",
    where: dict[str, Any] | None = None,
    when: dict[str, Any] | None = None,
    id: str = "f1",
    **params: Any,
) -> PlannedFault:
    kind = CATALOGUE[name]
    fault = kind.from_params(params)
    filled = {p.name: getattr(fault, p.name) for p in kind.parameters()}
    return PlannedFault(
        id, name, where or {"rank": 1}, when or {"step": 7}, kind.inside, filled, filled.get("duration_s"), 1,
        kind.expects, kind.has_undo,
    )  # fmt: skip


def until(what: Any, timeout_s: float = 5.0) -> None:
    limit = time.monotonic() + timeout_s
    while not what() and time.monotonic() < limit:
        time.sleep(0.005)
    assert what()


def test_a_fault_fires_once_and_the_agent_goes_on_before_the_proof(bench: Bench) -> None:
    bench.open(planned())
    process, line = bench.victim(1), Line()
    assert bench.reached("f1", 1, line) == "go"
    assert line.said == ["go"]
    assert process.wait(5) == -9
    assert bench.reached("f1", 1, Line()) == "skip"
    assert bench.stages() == ["armed", "reached", "fired", "verified"]


def test_the_undo_is_journalled_before_the_fault_and_closed_after_it(bench: Bench) -> None:
    desk = bench.open(planned("process.stop", duration_s=0.05))
    process = bench.victim(1)
    bench.reached("f1", 1, Line())
    assert bench.journal.lines == [("undo", "s/f1")]
    assert signals.state(process.pid) == "T"
    due = desk.next_due()
    assert due is not None
    time.sleep(max(0.0, due - time.monotonic()) + 0.01)
    desk.tick()
    desk.join()
    assert signals.state(process.pid) in "RS"
    assert bench.journal.lines[-1] == ("undone", "s/f1")
    assert bench.stages() == ["armed", "reached", "fired", "verified", "undone", "undo_verified"]
    assert bench.said("heal.start")


def test_what_has_no_duration_is_healed_at_the_end_at_the_latest(bench: Bench) -> None:
    desk = bench.open(planned("process.stop"))
    process = bench.victim(1)
    bench.reached("f1", 1, Line())
    desk.close("the target ended with exit code 0")
    assert signals.state(process.pid) in "RS"
    assert bench.stages()[-2:] == ["undone", "undo_verified"]


def test_a_victim_that_is_not_the_one_that_reached_the_point(bench: Bench) -> None:
    bench.open(planned(where={"rank": 2}, when={"event": "recovery.regroup"}))
    process = bench.victim(2)
    # The supervisor, which holds no rank, stands at the point; rank 2 is the victim.
    assert bench.reached("f1", None, Line(), "recovery.regroup") == "go"
    assert process.wait(5) == -9
    assert bench.said("fault.fired")["rank"] == 2


def test_a_role_that_belongs_to_no_one_yet_leaves_the_fault_armed(bench: Bench) -> None:
    desk = bench.open(planned(where={"role": "replacement"}, when={"event": "member.enter"}))
    bench.victim(1)
    assert bench.reached("f1", 1, Line(), "member.enter") == "skip"
    assert bench.stages() == ["armed"]
    assert bench.reached("f1", 1, Line(), "member.enter", fresh=True) == "go"
    desk.close("")


def test_a_fault_inside_acts_through_the_agent_and_is_told_failed_if_it_did_not(bench: Bench) -> None:
    bench.open(planned("process.exception"), planned("process.exception", id="f2"))
    bench.victim(1)
    line = Line(Evidence("raised", True, "agent"))
    assert bench.reached("f1", 1, line) == "go"
    assert line.said == ["act"]
    assert bench.stages("f1")[:3] == ["armed", "reached", "fired"]
    bench.reached("f2", 1, Line(Evidence("the agent is gone", False, "agent")))
    assert bench.stages("f2") == ["armed", "reached", "failed"]


def test_a_fault_by_time_counts_from_the_first_step_of_all_ranks(bench: Bench) -> None:
    desk = bench.open(planned(when={"after_s": 0.02}))
    process = bench.victim(1)
    assert desk.next_due() is None
    bench.first_commit_t = time.monotonic()
    assert desk.next_due() == pytest.approx(bench.first_commit_t + 0.02)
    time.sleep(0.03)
    desk.tick()
    assert process.wait(5) == -9
    desk.join()
    assert bench.stages() == ["armed", "reached", "fired", "verified"]


def test_a_fault_after_another_waits_for_it_and_for_a_living_victim(bench: Bench) -> None:
    desk = bench.open(
        planned(), planned(id="f2", where={"rank": 2}, when={"after_fault": "f1", "after_s": 0.01})
    )
    bench.victim(1)
    assert desk.next_due() is None
    bench.reached("f1", 1, Line())
    time.sleep(0.02)
    desk.tick()
    assert bench.stages("f2") == ["armed"]
    process = bench.victim(2)
    until(lambda: (desk.tick(), process.poll())[1] is not None)
    desk.join()
    assert bench.stages("f2") == ["armed", "reached", "fired", "verified"]


def test_a_line_on_stdout_fires_a_fault_that_needs_no_agent(bench: Bench) -> None:
    desk = bench.open(planned(), by_line=True)
    process = bench.victim(1)
    assert desk.for_agents() == []
    desk.on_line_step(6)
    assert process.poll() is None
    desk.on_line_step(7)
    assert process.wait(5) == -9
    desk.join()


def test_a_moment_that_never_came_says_which(bench: Bench) -> None:
    desk = bench.open(planned(when={"step": 12, "phase": "backward"}))
    desk.close("the target ended with exit code 0")
    failed = bench.said("fault.failed")
    assert failed["detail"] == (
        "its moment never came: step 12, backward, rank 1; the target ended with exit code 0"
    )


def test_an_agent_that_ended_the_fault_by_itself_is_believed_once(bench: Bench) -> None:
    desk = bench.open(planned("process.stop", duration_s=30))
    process = bench.victim(1)
    bench.reached("f1", 1, Line())
    process.send_signal(18)
    until(lambda: signals.state(process.pid) in "RS")
    for _ in range(2):
        desk.on_report(Report("undone", process.pid, 1, 1, "f1", Evidence("let go", True, "agent")))
    assert bench.stages().count("undone") == 1


def test_faults_by_time_are_not_given_to_agents(bench: Bench) -> None:
    desk = bench.open(planned(), planned(id="f2", when={"after_s": 1.0}))
    assert [fault["id"] for fault in desk.for_agents()] == ["f1"]


def test_a_fault_that_is_refused_is_said_and_the_agent_must_not_act(bench: Bench, tmp_path: Path) -> None:
    desk = bench.open(planned("storage.bitflip", path="nothing/*.pt"))
    desk.work = str(tmp_path)
    bench.victim(1)
    assert bench.reached("f1", 1, Line()) == "skip"
    assert bench.stages() == ["armed", "reached", "failed"]
    assert "no file in" in bench.said("fault.failed")["detail"]
    assert bench.journal.lines == []


def test_a_proof_that_comes_later_does_not_keep_the_victim_waiting(bench: Bench, tmp_path: Path) -> None:
    desk = bench.open(planned("storage.torn", mechanism="agent"))
    process, hits = bench.victim(1), tmp_path / "hits"
    data = {"hits": str(hits), "where": "/nowhere/*"}
    assert bench.reached("f1", 1, Line(Evidence("in force", True, "agent", data))) == "go"
    assert bench.stages() == ["armed", "reached", "fired"]
    (tmp_path / "file").write_bytes(b"123")
    hit = {"path": str(tmp_path / "file"), "inode": 0, "size": 3, "believed": 9}
    hits.write_text(json.dumps(hit) + "\n")
    until(lambda: "verified" in bench.stages())
    process.kill()
    desk.close("")


@pytest.mark.parametrize("by_clock", [False, True])
def test_code_of_a_fault_that_raises_is_told_and_what_it_did_is_taken_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, by_clock: bool
) -> None:
    kind = CATALOGUE["process.stop"]

    def verify(*_: Any) -> Evidence:
        raise RuntimeError("no such file")

    monkeypatch.setattr(kind, "verify", verify)
    desk = bench.open(planned("process.stop", when={"after_s": 0.0} if by_clock else None))
    process = bench.victim(1)
    if by_clock:
        bench.first_commit_t = time.monotonic()
        desk.next_due()
        desk.tick()
        desk.join()
    else:
        assert bench.reached("f1", 1, Line()) == "skip"
    assert signals.state(process.pid) in "RS"
    assert bench.stages() == ["armed", "reached", "failed", "undone", "undo_verified"]
    failed = bench.said("fault.failed")
    assert failed["detail"] == "its own code failed: RuntimeError: no such file"
    assert "in verify" in failed["traceback"]
    # Nothing waits for it any longer.
    assert bench.said("heal.start")
    assert desk.next_due() is None


def test_an_undo_that_raises_leaves_its_record_to_the_journal(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def undo(*_: Any) -> Evidence:
        raise RuntimeError("no such file")

    monkeypatch.setattr(CATALOGUE["process.stop"], "undo", undo)
    desk = bench.open(planned("process.stop"))
    bench.victim(1)
    assert bench.reached("f1", 1, Line()) == "go"
    desk.close("the target ended with exit code 0")
    assert bench.stages() == ["armed", "reached", "fired", "verified", "failed"]
    assert bench.journal.lines == [("undo", "s/f1")]
    assert bench.said("heal.start")
