from __future__ import annotations

from typing import Any

import pytest

from injectors import signals
from injectors.fault import FaultError
from injectors.store import wire
from injectors.store.stop import StoreStop


def test_it_freezes_the_host_and_undo_lets_go_twice(hosts: Any, rank: Any) -> None:
    pid, port = hosts.make(keys={"k": "1"})
    victim, fault = rank(port), StoreStop()
    record = fault.undo_record(victim)
    assert (record.kind, record.pid) == ("signal.cont", pid)
    fired = fault.inject(victim, None)
    assert fired.proven
    assert fault.verify(victim, fired).data["state"] == "T"
    assert signals.state(victim.pid) != "T"
    with pytest.raises(wire.StoreError):
        # The kernel accepts the connection for it; no one answers.
        wire.Store("127.0.0.1", port, timeout_s=0.2)
    assert not fault.verify_undone(record).proven
    for _ in range(2):
        assert fault.undo(record).proven
        assert fault.verify_undone(record).proven
    assert wire.ask(pid, "127.0.0.1", port, [("get", "k")]) == [b"1"]


def test_undo_after_the_host_died(hosts: Any, rank: Any) -> None:
    pid, port = hosts.make()
    victim, fault = rank(port), StoreStop()
    record = fault.undo_record(victim)
    fired = fault.inject(victim, None)
    hosts.clear()
    assert fault.undo(record).proven
    assert fault.verify_undone(record).proven
    # What was seen stays true.
    assert fault.verify(victim, fired).proven
    assert not signals.is_alive(pid, record.start_ticks)


def test_nothing_to_aim_at_is_refused(hosts: Any, rank: Any) -> None:
    pid, port = hosts.make()
    for victim in (rank(None), rank(port, run="another")):
        with pytest.raises(FaultError):
            StoreStop().undo_record(victim)
        fired = StoreStop().inject(victim, None)
        assert not fired.proven
        assert not StoreStop().verify(victim, fired).proven
    assert signals.state(pid) != "T"


@pytest.mark.parametrize("value", [0, -1, 4000, "2s"])
def test_a_bad_duration_is_refused(value: object) -> None:
    with pytest.raises(FaultError, match="duration_s"):
        StoreStop.from_params({"duration_s": value})
