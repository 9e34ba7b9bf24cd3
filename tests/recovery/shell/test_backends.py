"""What differs between gloo and NCCL. NCCL is a stand-in here: this machine has no GPU."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
import torch.distributed as dist

from recovery.errors import RecoveryError
from recovery.shell import backends
from recovery.shell.backends import Gloo, Nccl, backend_named
from recovery.shell.rendezvous import GROUP_TIMEOUT


class StandInForNccl:
    """Records what the real ProcessGroupNCCL would be asked. It says nothing about NCCL's behaviour."""

    class Options:
        _timeout: Any = None

    def __init__(self, store: Any, rank: int, size: int, options: Options) -> None:
        self.made_with = (store, rank, size, options._timeout)
        self.calls: list[Any] = []

    def eager_connect_single_device(self, device: torch.device) -> None:
        self.calls.append(("connect", device))

    def abort(self) -> None:
        self.calls.append("abort")


@pytest.fixture
def nccl(monkeypatch: pytest.MonkeyPatch) -> Nccl:
    monkeypatch.setattr(dist, "ProcessGroupNCCL", StandInForNccl, raising=False)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    backend = backend_named("nccl")
    assert isinstance(backend, Nccl)
    return backend


def test_an_nccl_group_connects_while_the_generation_forms(nccl: Nccl) -> None:
    group = nccl.form("store", rank=1, size=4, generation=7, address="")
    assert group.made_with == ("store", 1, 4, GROUP_TIMEOUT)
    assert group.calls == [("connect", torch.device("cuda", 3))]


def test_an_nccl_group_is_aborted_because_it_has_no_sockets_to_shut(nccl: Nccl) -> None:
    group = nccl.form("store", 0, 1, 1, "")
    nccl.abort(group)
    assert group.calls[-1] == "abort"
    assert not nccl.released_from_outside
    assert nccl.device() == torch.device("cuda", 3)


@pytest.mark.parametrize("reader", ["_dump_nccl_trace_json", "_dump_fr_trace_json"])
def test_the_flight_recorder_is_read(nccl: Nccl, monkeypatch: pytest.MonkeyPatch, reader: str) -> None:
    entry = {"collective_seq_id": 7, "profiling_name": "nccl:all_reduce", "state": "started", "pg_id": 0}
    dump = json.dumps({"version": "2.9", "entries": [{"collective_seq_id": 1}] * 20 + [entry]})
    for name in ("_dump_nccl_trace_json", "_dump_fr_trace_json"):
        monkeypatch.setattr(backends._c10d, name, None, raising=False)
    monkeypatch.setattr(backends._c10d, reader, lambda: dump.encode(), raising=False)
    trace = nccl.trace()
    assert len(trace) == backends.TRACE_ENTRIES
    assert (trace[-1]["collective_seq_id"], trace[-1]["state"]) == (7, "started")


def test_without_a_flight_recorder_there_is_no_trace(nccl: Nccl, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_dump_nccl_trace_json", "_dump_fr_trace_json"):
        monkeypatch.setattr(backends._c10d, name, None, raising=False)
    assert nccl.trace() == []
    assert backend_named("gloo").trace() == []


def test_gloo_is_released_from_outside() -> None:
    gloo = backend_named("gloo")
    assert isinstance(gloo, Gloo)
    assert gloo.released_from_outside
    assert gloo.device() == torch.device("cpu")


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(RecoveryError, match=r"unknown backend 'mpi'\n  mend: one of gloo, nccl"):
        backend_named("mpi")
