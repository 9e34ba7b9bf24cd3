from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from injectors import undo
from injectors.fault import FaultError, Victim
from injectors.store import replayed, wire
from injectors.store.stale_key import StoreStaleKey


def record_keys(config: Path, generation: int, keys: dict[str, bytes], t0: float = 1.0) -> None:
    """As the agent of a rank does when its default group was made."""
    path = replayed.recording_path(str(config), 1, generation)
    values = {key: value.hex() for key, value in keys.items()}
    Path(path).write_text(json.dumps({"generation": generation, "t0": t0, "keys": values}))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "0.json"
    path.write_text(json.dumps({"t0": 1.0}))
    return path


def in_generation(victim: Victim, generation: int) -> Victim:
    return Victim(**{**victim.as_dict(), "generation": generation})


def test_keys_of_the_life_before_come_back_and_undo_restores(hosts: Any, rank: Any, config: Path) -> None:
    pid, port = hosts.make(keys={"pg/0": "new", "pg/1": "same", "other": "1"})
    record_keys(config, 1, {"pg/0": b"old", "pg/1": b"same", "pg/2": b"old2", "other": b"0"})
    record_keys(config, 2, {"pg/0": b"not this one"})
    victim = in_generation(rank(port, TORCH_CHAOS_AGENT=str(config)), 2)
    fault = StoreStaleKey(key="pg/*")
    record = fault.undo_record(victim)
    assert record is not None
    fired = fault.inject(victim, None)
    assert fired.proven, fired.what
    assert fired.data["from_generation"] == 1
    assert fired.data["changed"] == [
        {"key": "pg/0", "before": b"new".hex(), "replayed": b"old".hex(), "after": b"old".hex()},
        {"key": "pg/2", "before": None, "replayed": b"old2".hex(), "after": b"old2".hex()},
    ]
    assert fault.verify(victim, fired).data["stale"] == ["pg/0", "pg/2"]
    assert not fault.verify_undone(record).proven
    for _ in range(2):
        assert undo.carry_out(record.as_dict())["done"]
        assert fault.verify_undone(record).proven
    with wire.Store("127.0.0.1", port) as store:
        assert store.keys() == ["other", "pg/0", "pg/1"]
        assert (store.get("pg/0"), store.get("other")) == (b"new", b"1")
    assert pid == record.pid


def test_undo_leaves_what_the_job_has_set_since(hosts: Any, rank: Any, config: Path) -> None:
    pid, port = hosts.make(keys={"k": "new"})
    record_keys(config, 1, {"k": b"old"})
    victim, fault = rank(port, TORCH_CHAOS_AGENT=str(config)), StoreStaleKey()
    record = fault.undo_record(victim)
    fired = fault.inject(victim, None)
    wire.ask(pid, "127.0.0.1", port, [("set", "k", b"newer")])
    # What was seen stays true; that no key is stale any more is said too.
    assert fault.verify(victim, fired).proven
    assert fault.verify(victim, fired).data == {"stale": ["k"], "still": []}
    assert fault.undo(record).proven
    assert wire.ask(pid, "127.0.0.1", port, [("get", "k"), ("keys",)]) == [b"newer", ["k"]]


def test_undo_after_the_host_died(hosts: Any, rank: Any, config: Path) -> None:
    _, port = hosts.make(keys={"k": "new"})
    record_keys(config, 1, {"k": b"old"})
    victim, fault = rank(port, TORCH_CHAOS_AGENT=str(config)), StoreStaleKey()
    record = fault.undo_record(victim)
    assert fault.inject(victim, None).proven
    hosts.clear()
    for _ in range(2):
        assert fault.undo(record).proven
        assert fault.verify_undone(record).proven


def test_a_key_that_never_changed_is_no_effect(hosts: Any, rank: Any, config: Path) -> None:
    pid, port = hosts.make(keys={"k": "same"})
    record_keys(config, 1, {"k": b"same"})
    victim, fault = rank(port, TORCH_CHAOS_AGENT=str(config)), StoreStaleKey()
    assert fault.undo_record(victim) is not None
    fired = fault.inject(victim, None)
    assert not fired.proven
    assert "all of 1 keys still have the value of generation 1" in fired.what
    assert not fault.verify(victim, fired).proven
    assert wire.ask(pid, "127.0.0.1", port, [("keys",)]) == [["k"]]


def test_without_a_record_a_key_or_a_store_it_is_refused(hosts: Any, rank: Any, config: Path) -> None:
    _, port = hosts.make(keys={"k": "new"})
    for victim, fault, words in (
        (rank(port), StoreStaleKey(), "has recorded no earlier value"),
        (rank(port, TORCH_CHAOS_AGENT=str(config)), StoreStaleKey(), "has recorded no earlier value"),
        (rank(None), StoreStaleKey(), "no TCPStore"),
    ):
        with pytest.raises(FaultError, match=words):
            fault.undo_record(victim)
        assert not fault.inject(victim, None).proven
    record_keys(config, 1, {"k": b"old"})
    with pytest.raises(FaultError, match=r"no recorded key matches 'nothing\*'"):
        StoreStaleKey(key="nothing*").undo_record(rank(port, TORCH_CHAOS_AGENT=str(config)))


def test_a_record_of_an_earlier_scenario_is_not_taken(hosts: Any, rank: Any, config: Path) -> None:
    _, port = hosts.make(keys={"k": "new"})
    record_keys(config, 1, {"k": b"old"}, t0=0.5)
    with pytest.raises(FaultError, match="has recorded no earlier value"):
        StoreStaleKey().undo_record(rank(port, TORCH_CHAOS_AGENT=str(config)))
