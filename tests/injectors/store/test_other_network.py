"""A store on another node: found from a rank here, asked from within its namespace, delayed from outside."""

from __future__ import annotations

from typing import Any

import pytest

from injectors import signals
from injectors.fault import FaultError
from injectors.store import wire
from injectors.store.delay import StoreDelay
from injectors.store.host import find

pytestmark = pytest.mark.slow


def test_the_store_of_another_node(far_hosts: Any, rank: Any) -> None:
    pid, port = far_hosts.make(keys={"k": "1"})
    with pytest.raises(wire.StoreError, match="refused"):
        wire.Store("127.0.0.1", port)
    victim = rank(port)
    host = find(victim)
    assert (host.pid, host.start_ticks) == (pid, signals.start_ticks(pid))
    calls = [("get", "k"), ("get", "none"), ("keys",), ("set_back", [["k", b"\x00old"]], "ours/")]
    changed = [["k", b"1", b"\x00old", b"\x00old"]]
    assert wire.ask(pid, host.address, port, calls) == [b"1", None, ["k"], changed]
    assert wire.ask(pid, host.address, port, [("give_back", "k", "ours/k"), ("get", "k")]) == [True, b"1"]
    fault = StoreDelay(delay_s=0.2)
    record = fault.undo_record(victim)
    fired = fault.inject(victim, None)
    assert fault.verify(victim, fired).proven
    assert fault.undo(record).proven
    assert fault.verify_undone(record).proven


def test_of_two_stores_on_one_port_no_one_is_guessed(far_hosts: Any, hosts: Any, rank: Any) -> None:
    """A rank that is connected to one of them says which is meant; this one is connected to neither."""
    _, port = hosts.make()
    far_hosts.make(port=port)
    with pytest.raises(FaultError, match="served by several of this run"):
        find(rank(port))
