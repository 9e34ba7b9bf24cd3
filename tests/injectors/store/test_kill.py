from __future__ import annotations

import os
from typing import Any

from injectors import signals
from injectors.store.kill import StoreKill


def test_the_host_is_killed_and_the_rank_lives(hosts: Any, rank: Any) -> None:
    pid, port = hosts.make()
    victim, fault = rank(port), StoreKill()
    assert fault.undo_record(victim) is None
    fired = fault.inject(victim, None)
    assert fired.proven
    assert fired.data["host"] == pid
    assert fired.what.startswith(f"the store of rank 1 is hosted by pid {pid} (")
    assert f"listens for localhost:{port}, no rank: SIGKILL sent" in fired.what
    assert fault.verify(victim, fired).proven
    assert signals.is_alive(victim.pid, victim.start_ticks)
    # Again: no one listens there any more.
    again = fault.inject(victim, None)
    assert not again.proven
    assert "no process of this run listens" in again.what
    assert not fault.verify(victim, again).proven


def test_a_rank_that_hosts_the_store_itself_is_told_apart(all_hosts: Any, rank: Any) -> None:
    """Seen from a rank that has the host's pid: rank 0 where the store is not shared."""
    from injectors.store import hosted
    from injectors.store.host import StoreHost

    victim = rank(None)
    host = StoreHost(victim.pid, victim.start_ticks, 1, "127.0.0.1", 1, "localhost:1", "run")
    assert host.is_victim(victim)
    assert "the rank itself" in hosted.told(host, victim, hosted.Evidence("", True)).what


def test_nothing_to_aim_at_is_reported_and_nothing_is_killed(hosts: Any, rank: Any) -> None:
    pid, port = hosts.make()
    for victim in (rank(None), rank(port, run="another"), rank(port, run="")):
        fired = StoreKill().inject(victim, None)
        assert not fired.proven
        assert not StoreKill().verify(victim, fired).proven
    os.kill(pid, 0)
