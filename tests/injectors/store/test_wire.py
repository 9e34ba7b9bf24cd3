from __future__ import annotations

import socket
from typing import Any

import pytest
import torch.distributed as dist

from injectors.store.wire import Store, StoreError, ask


def client_of_torch(port: int) -> Any:
    return dist.TCPStore("127.0.0.1", port, None, False, wait_for_workers=False)


def test_it_reads_what_torch_wrote_and_torch_reads_what_it_wrote(hosts: Any) -> None:
    _, port = hosts.make(keys={"plain": "1", "a/b//c": "2"})
    theirs = client_of_torch(port)
    theirs.add("counter", 3)
    with Store("127.0.0.1", port) as ours:
        assert ours.keys() == ["a/b//c", "counter", "plain"]
        assert ours.get("a/b//c") == b"2"
        assert ours.get("counter") == b"3"
        assert ours.get("missing") is None
        ours.set("plain", b"\x00new")
        assert theirs.get("plain") == b"\x00new"
        assert ours.delete("plain")
        assert not ours.delete("plain")
        assert not theirs.check(["plain"])
        assert 0.0 < ours.ping() < 5.0


def test_a_swap_takes_place_only_from_the_expected_value(hosts: Any) -> None:
    _, port = hosts.make(keys={"k": "1"})
    with Store("127.0.0.1", port) as store:
        assert not store.swap("k", b"0", b"9")
        assert not store.swap("k", None, b"9")
        assert store.get("k") == b"1"
        assert store.swap("k", b"1", b"9")
        assert store.swap("fresh", None, b"7")
        assert (store.get("k"), store.get("fresh")) == (b"9", b"7")


def test_values_set_back_and_given_back(hosts: Any) -> None:
    _, port = hosts.make(keys={"same": "1", "other": "2", "again": "3"})
    with Store("127.0.0.1", port) as store:
        pairs = [["same", b"1"], ["other", b"old"], ["again", b"old"], ["gone", b"old"]]
        changed = store.set_back(pairs, "ours/")
        assert changed == [
            ["other", b"2", b"old", b"old"],
            ["again", b"3", b"old", b"old"],
            ["gone", None, b"old", b"old"],
        ]
        store.set("again", b"set by the job since")
        assert store.give_back("other", "ours/other")
        assert not store.give_back("again", "ours/again")
        assert store.give_back("gone", "ours/gone")
        assert not store.give_back("gone", "ours/gone")
        assert store.keys() == ["again", "other", "same"]
        assert (store.get("other"), store.get("again")) == (b"2", b"set by the job since")


def test_a_server_of_another_kind_is_noticed_before_anything_is_written() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(StoreError, match="does not answer"):
            Store("127.0.0.1", port, timeout_s=0.2)
    with pytest.raises(StoreError, match="refused"):
        Store("127.0.0.1", port)


def test_a_host_that_is_gone_is_said_to_be(dead: Any) -> None:
    with pytest.raises(StoreError, match="gone"):
        ask(dead.pid, "127.0.0.1", 1, [("ping",)])
