from __future__ import annotations

import dataclasses
import os
from typing import Any

import pytest

from injectors import undo
from injectors.fault import FaultError, Victim
from injectors.gpu import claim
from injectors.gpu.clock_lock import GpuClockLock
from injectors.gpu.setting import token_of

THERMAL = 0x40


def test_it_locks_is_verified_and_undo_lifts_it_twice(gpu: Any, on_device: Victim) -> None:
    before = gpu.snapshot()
    fault = GpuClockLock(share=0.5)
    record = fault.undo_record(on_device)
    assert gpu.snapshot() == before
    fired = fault.inject(on_device, None)
    assert fired.proven
    assert fired.what.startswith("STAND-IN NVML: device 0")
    assert (gpu.get("lock_min_mhz"), gpu.get("lock_max_mhz")) == (990, 990)
    seen = fault.verify(on_device, fired)
    assert (seen.proven, seen.data["before"]["clock_mhz"], seen.data["seen"]["clock_mhz"]) == (True, 345, 990)
    assert not fault.verify_undone(record).proven
    for _ in range(2):
        assert fault.undo(record).proven
        assert fault.verify_undone(record).proven
    assert gpu.snapshot() == before


def test_a_busy_device_is_locked_too(gpu: Any, on_device: Victim) -> None:
    gpu.set("busy", 1)
    fault = GpuClockLock(share=0.25)
    record = fault.undo_record(on_device)
    fired = fault.inject(on_device, None)
    assert fault.verify(on_device, fired).data["seen"]["clock_mhz"] == 495
    assert fault.undo(record).proven
    assert fault.verify_undone(record).proven


def test_the_record_is_plain_data_with_the_value_read_before(gpu: Any, on_device: Victim) -> None:
    data = GpuClockLock().undo_record(on_device).data
    assert data["before"] == {"clock_mhz": 345, "max_mhz": 1980, "reasons": 1}
    assert data["library"] == os.path.realpath(gpu.library)
    assert (data["uuid"], data["set_mhz"]) == (gpu.uuids[0], 990)


def test_undo_after_the_victim_died(gpu: Any, sleeper: Victim, dead: Victim) -> None:
    gpu.put(sleeper)
    fault = GpuClockLock()
    record = fault.undo_record(sleeper)
    fault.inject(sleeper, None)
    gone = dataclasses.replace(record, pid=dead.pid, start_ticks=dead.start_ticks)
    assert fault.undo(gone).proven
    assert gpu.get("lock_max_mhz") == 0


def test_a_device_that_ignores_the_lock_is_not_proven(gpu: Any, on_device: Victim) -> None:
    gpu.set("ignores_locks", 1)
    fault = GpuClockLock()
    record = fault.undo_record(on_device)
    fired = fault.inject(on_device, None)
    assert fired.proven
    assert not fault.verify(on_device, fired).proven
    assert fault.undo(record).proven


def test_a_clock_that_stood_there_before_proves_nothing(gpu: Any, on_device: Victim) -> None:
    gpu.set("idle_clock_mhz", 990)
    fault = GpuClockLock()
    record = fault.undo_record(on_device)
    seen = fault.verify(on_device, fault.inject(on_device, None))
    assert not seen.proven
    assert "before already" in seen.what
    assert fault.undo(record).proven


def test_a_device_that_somebody_has_locked_is_refused(gpu: Any, on_device: Victim) -> None:
    gpu.set("lock_min_mhz", 1200)
    gpu.set("lock_max_mhz", 1200)
    before = gpu.snapshot()
    with pytest.raises(FaultError, match="is locked already"):
        GpuClockLock().undo_record(on_device)
    # Locked between the look and the act.
    refused = GpuClockLock().inject(on_device, None)
    assert not refused.proven
    assert gpu.snapshot() == before


def test_a_device_on_which_a_stranger_computes_is_refused(gpu: Any, sleeper: Victim) -> None:
    gpu.set("processes", f"{sleeper.pid} 1\n1 1")
    before = gpu.snapshot()
    with pytest.raises(FaultError, match="not of this run compute on it: 1\n"):
        GpuClockLock().undo_record(sleeper)
    assert not GpuClockLock().inject(sleeper, None).proven
    assert gpu.snapshot() == before


@pytest.mark.parametrize("name", ["7", "GPU-00000000-0000-0000-0000-000000000000"])
def test_a_device_that_does_not_exist_is_refused(gpu: Any, sleeper: Victim, name: str) -> None:
    with pytest.raises(FaultError, match=f"there is no device '{name}'"):
        GpuClockLock(device=name).undo_record(sleeper)


def test_a_victim_on_no_device_is_refused_unless_one_is_named(gpu: Any, sleeper: Victim) -> None:
    with pytest.raises(FaultError, match="computes on no device"):
        GpuClockLock().undo_record(sleeper)
    by_uuid = GpuClockLock(device=gpu.uuids[1]).undo_record(sleeper)
    assert by_uuid.data["uuid"] == GpuClockLock(device="1").undo_record(sleeper).data["uuid"] == gpu.uuids[1]


def test_a_victim_on_two_devices_must_name_one(gpu: Any, on_device: Victim) -> None:
    gpu.put(on_device, device=1)
    with pytest.raises(FaultError, match="name it"):
        GpuClockLock().undo_record(on_device)


def test_without_the_right_nothing_is_left(gpu: Any, on_device: Victim) -> None:
    gpu.set("read_only", 1)
    fault = GpuClockLock()
    record = fault.undo_record(on_device)
    fired = fault.inject(on_device, None)
    assert not fired.proven
    assert "run as root" in fired.what
    assert gpu.claims() == []
    # The undo that was journalled before has nothing to do, and needs no right for it.
    assert fault.undo(record).proven
    assert fault.verify_undone(record).proven


def test_a_second_run_is_refused_while_the_first_has_the_device(gpu: Any, on_device: Victim) -> None:
    fault = GpuClockLock()
    record = fault.undo_record(on_device)
    fault.inject(on_device, None)
    other = dataclasses.replace(on_device, fault="f2")
    with pytest.raises(FaultError, match="another run of torch-chaos"):
        fault.undo_record(other)
    # The other run had looked before the first one set it.
    assert not fault.inject(other, None).proven
    theirs = dataclasses.replace(record, data={**record.data, "token": token_of(other)})
    assert fault.undo(theirs).proven
    assert gpu.get("lock_max_mhz") == 990
    assert fault.undo(record).proven


def test_undo_leaves_what_somebody_else_has_locked_since(gpu: Any, on_device: Victim) -> None:
    fault = GpuClockLock()
    record = fault.undo_record(on_device)
    fault.inject(on_device, None)
    gpu.set("lock_min_mhz", 1500)
    gpu.set("lock_max_mhz", 1500)
    for _ in range(2):
        done = fault.undo(record)
        assert done.proven
    assert gpu.get("lock_max_mhz") == 1500
    seen = fault.verify_undone(record)
    assert (seen.proven, "somebody else's lock, left as it is" in seen.what) == (True, True)


def test_undo_says_what_it_left(gpu: Any, on_device: Victim) -> None:
    fault = GpuClockLock()
    record = fault.undo_record(on_device)
    fault.inject(on_device, None)
    gpu.set("lock_min_mhz", 600)
    gpu.set("lock_max_mhz", 600)
    assert "left as it is: somebody else has locked" in fault.undo(record).what


def test_undo_does_nothing_where_somebody_has_lifted_it(gpu: Any, on_device: Victim) -> None:
    gpu.set("busy", 1)
    fault = GpuClockLock()
    record = fault.undo_record(on_device)
    fault.inject(on_device, None)
    gpu.set("lock_min_mhz", 0)
    gpu.set("lock_max_mhz", 0)
    # No right is needed to change nothing.
    gpu.set("read_only", 1)
    assert "somebody has lifted" in fault.undo(record).what
    assert fault.verify_undone(record).proven


def test_a_lock_that_heat_hides_is_lifted(gpu: Any, on_device: Victim) -> None:
    fault = GpuClockLock()
    record = fault.undo_record(on_device)
    fault.inject(on_device, None)
    gpu.set("slowed_to_mhz", 600)
    gpu.set("slow_reasons", THERMAL)
    assert fault.undo(record).proven
    assert gpu.get("lock_max_mhz") == 0


def test_a_tool_killed_before_it_set_anything_leaves_only_its_claim(gpu: Any, on_device: Victim) -> None:
    before = gpu.snapshot()
    fault = GpuClockLock()
    record = fault.undo_record(on_device)
    assert undo.carry_out(record.as_dict())["detail"].startswith("nothing of ours is set")
    claim.take(record.data["claim"], record.data["token"])
    assert undo.carry_out(record.as_dict())["done"]
    assert gpu.snapshot() == before


def test_a_claim_that_was_being_written_is_removed(
    gpu: Any, on_device: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = gpu.snapshot()
    record = GpuClockLock().undo_record(on_device)

    def die(*args: Any) -> None:
        raise KeyboardInterrupt

    # As SIGKILL does it: nothing after the draft is carried out.
    with monkeypatch.context() as patch:
        patch.setattr("os.link", die)
        patch.setattr("os.unlink", lambda path: None)
        with pytest.raises(KeyboardInterrupt):
            claim.take(record.data["claim"], record.data["token"])
    assert len(gpu.claims()) == 1
    assert undo.carry_out(record.as_dict())["done"]
    assert gpu.snapshot() == before


def test_a_device_that_is_lost_is_told_and_undone_when_it_is_back(gpu: Any, on_device: Victim) -> None:
    fault = GpuClockLock()
    record = fault.undo_record(on_device)
    fired = fault.inject(on_device, None)
    gpu.set("lost", 1)
    assert not fault.verify(on_device, fired).proven
    assert not fault.undo(record).proven
    assert not fault.verify_undone(record).proven
    gpu.set("lost", 0)
    assert fault.undo(record).proven


@pytest.mark.parametrize("params", [{"share": 0.99}, {"share": "low"}, {"duration_s": 0}, {"device": 3}])
def test_bad_parameters_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(FaultError, match=next(iter(params))):
        GpuClockLock.from_params(params)
