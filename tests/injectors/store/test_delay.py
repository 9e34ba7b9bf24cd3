from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from injectors import signals, undo
from injectors.fault import FaultError
from injectors.store import delay, helper, wire
from injectors.store.delay import StoreDelay


@pytest.fixture(params=["answers", "cycle"])
def mode(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each mechanism; the second is what is left where tracing is refused."""
    if request.param == "cycle":
        monkeypatch.setattr(helper, "may_trace", lambda thread: "ptrace is refused")
    return str(request.param)


def test_answers_are_late_until_it_is_undone(mode: str, hosts: Any, rank: Any) -> None:
    pid, port = hosts.make(keys={"k": "1"})
    victim, fault = rank(port), StoreDelay(delay_s=0.3)
    record = fault.undo_record(victim)
    assert (record.kind, record.pid, record.data["mode"]) == ("store.delay", pid, mode)
    fired = fault.inject(victim, None)
    assert fired.proven, fired.what
    assert fired.data["mode"] == mode
    seen = fault.verify(victim, fired)
    assert seen.proven, seen.what
    assert seen.data["late_s"] >= 0.12 > fired.data["before_s"]
    assert not fault.verify_undone(record).proven or mode == "cycle"
    for _ in range(2):
        undone = fault.undo(record)
        assert undone.proven, undone.what
        assert fault.verify_undone(record).proven
    assert helper.find(record.data["run"], record.data["tag"]) == []
    assert signals.state(pid) in ("S", "R")
    assert wire.ask(pid, "127.0.0.1", port, [("get", "k")]) == [b"1"]


def test_every_answer_is_held_and_nothing_else_of_the_host(hosts: Any, rank: Any) -> None:
    if helper.probe() is not None:
        pytest.skip("tracing is refused here")
    pid, port = hosts.make()
    victim, fault = rank(port), StoreDelay(delay_s=0.1)
    record = fault.undo_record(victim)
    fired = fault.inject(victim, None)
    others = [int(name) for name in os.listdir(f"/proc/{pid}/task") if int(name) != fired.data["thread"]]
    assert helper.traced(pid) == [fired.data["thread"]]
    assert len(others) >= 1
    with wire.Store("127.0.0.1", port) as store:
        assert all(store.ping() >= 0.1 for _ in range(3))
    undone = fault.undo(record)
    # The connection's own ping, and three more.
    assert undone.data["held"] == 4
    assert helper.traced(pid) == []


def test_it_ends_by_itself_when_its_time_is_up(hosts: Any, rank: Any) -> None:
    _, port = hosts.make()
    victim, fault = rank(port), StoreDelay(delay_s=0.05, duration_s=0.2)
    record = fault.undo_record(victim)
    assert fault.inject(victim, None).proven
    (pid,) = helper.find(record.data["run"], record.data["tag"])
    ticks = signals.start_ticks(pid)
    assert ticks is not None
    assert signals.wait_gone(pid, ticks, 10.0)
    assert fault.verify_undone(record).proven
    assert fault.undo(record).proven


def test_it_ends_with_the_tool_and_the_record_undoes_the_rest(mode: str, hosts: Any, rank: Any) -> None:
    """The tool killed with SIGKILL while the store is slow: its end of the pipe goes with it."""
    pid, port = hosts.make()
    victim = rank(port)
    # The dead tool is stood for by a process that starts the helper and is killed.
    record = StoreDelay(delay_s=0.2).undo_record(victim)
    data = record.data
    order = {
        "mode": mode,
        "host": pid,
        "port": port,
        "thread": delay._thread(delay.find(victim)),
        "delay_s": 0.2,
        "longest_s": 60.0,
    }
    script = (
        "import signal, sys\nfrom injectors.store import helper\n"
        f"assert helper.start({data['run']!r}, {data['tag']!r}, {order!r}) is None\n"
        "print('ready', flush=True)\nsignal.pause()\n"
    )
    tool = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert tool.stdout is not None
    assert tool.stdout.readline() == "ready\n"
    helpers = helper.find(data["run"], data["tag"])
    assert len(helpers) == 1
    ticks = signals.start_ticks(helpers[0])
    tool.kill()
    tool.communicate()
    assert ticks is not None
    assert signals.wait_gone(helpers[0], ticks, 10.0)
    for _ in range(2):
        assert undo.carry_out(record.as_dict())["done"]
    assert StoreDelay(delay_s=0.2).verify_undone(record).proven


def test_the_record_alone_ends_a_helper_that_did_not_notice(mode: str, hosts: Any, rank: Any) -> None:
    pid, port = hosts.make()
    victim, fault = rank(port), StoreDelay(delay_s=0.2)
    record = fault.undo_record(victim)
    assert fault.inject(victim, None).proven
    (helping,) = helper.find(record.data["run"], record.data["tag"])
    ticks = signals.start_ticks(helping)
    assert ticks is not None
    signals.send(helping, ticks, 19)
    for _ in range(2):
        assert undo.carry_out(record.as_dict())["done"]
    assert not signals.is_alive(helping, ticks)
    assert fault.verify_undone(record).proven
    helper.stop(record.data["run"], record.data["tag"])
    assert signals.state(pid) in ("S", "R")


def test_undo_after_the_host_died(hosts: Any, rank: Any) -> None:
    _, port = hosts.make()
    victim, fault = rank(port), StoreDelay(delay_s=0.2)
    record = fault.undo_record(victim)
    assert fault.inject(victim, None).proven
    hosts.clear()
    for _ in range(2):
        assert fault.undo(record).proven
        assert fault.verify_undone(record).proven
    assert helper.find(record.data["run"], record.data["tag"]) == []


def test_a_helper_of_another_fault_is_left_alone(hosts: Any, rank: Any) -> None:
    _, port = hosts.make()
    victim, fault = rank(port), StoreDelay(delay_s=0.05)
    record = fault.undo_record(victim)
    assert fault.inject(victim, None).proven
    other = {**record.as_dict(), "data": {**record.data, "tag": record.data["tag"] + "0"}}
    assert undo.carry_out(other)["done"]
    assert len(helper.find(record.data["run"], record.data["tag"])) == 1
    assert fault.undo(record).proven


def test_nothing_to_aim_at_is_refused(hosts: Any, rank: Any) -> None:
    _, port = hosts.make()
    for victim in (rank(None), rank(port, run="another")):
        with pytest.raises(FaultError):
            StoreDelay().undo_record(victim)
        fired = StoreDelay().inject(victim, None)
        assert not fired.proven
        assert not StoreDelay().verify(victim, fired).proven


@pytest.mark.parametrize("params", [{"delay_s": 0}, {"delay_s": 31}, {"duration_s": 0}, {"delay_s": "1"}])
def test_bad_parameters_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(FaultError, match=next(iter(params))):
        StoreDelay.from_params(params)
