from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from injectors.fault import FaultError, Victim
from injectors.gpu.power_cap import GpuPowerCap
from injectors.gpu.setting import token_of


def test_it_limits_is_verified_and_undo_restores_twice(gpu: Any, on_device: Victim) -> None:
    before = gpu.snapshot()
    fault = GpuPowerCap(share=0.1)
    record = fault.undo_record(on_device)
    assert gpu.snapshot() == before
    assert (record.data["before_mw"], record.data["set_mw"]) == (700000, 250000)
    fired = fault.inject(on_device, None)
    assert gpu.get("power_limit_mw") == 250000
    seen = fault.verify(on_device, fired)
    assert seen.proven
    assert seen.what.startswith("STAND-IN NVML: the limit reads 250000 mW")
    assert not fault.verify_undone(record).proven
    for _ in range(2):
        assert fault.undo(record).proven
        assert fault.verify_undone(record).proven
    assert gpu.snapshot() == before


def test_a_device_that_ignores_the_limit_is_not_proven(gpu: Any, on_device: Victim) -> None:
    gpu.set("ignores_limits", 1)
    fault = GpuPowerCap()
    record = fault.undo_record(on_device)
    assert not fault.verify(on_device, fault.inject(on_device, None)).proven
    assert "as before" in fault.undo(record).what


def test_a_device_that_somebody_has_capped_is_refused(gpu: Any, on_device: Victim) -> None:
    gpu.set("power_limit_mw", 500000)
    before = gpu.snapshot()
    with pytest.raises(FaultError, match="is capped at 500000 mW already"):
        GpuPowerCap().undo_record(on_device)
    assert gpu.snapshot() == before


def test_a_device_that_takes_no_lower_limit_is_refused(gpu: Any, on_device: Victim) -> None:
    gpu.set("power_min_mw", 700000)
    with pytest.raises(FaultError, match="no limit below its default"):
        GpuPowerCap().undo_record(on_device)


def test_a_device_on_which_a_stranger_computes_is_refused(gpu: Any, sleeper: Victim) -> None:
    gpu.set("processes", "1 1")
    with pytest.raises(FaultError, match="not of this run"):
        GpuPowerCap(device="0").undo_record(sleeper)


def test_undo_leaves_what_somebody_else_has_set_since(gpu: Any, on_device: Victim) -> None:
    fault = GpuPowerCap()
    record = fault.undo_record(on_device)
    fault.inject(on_device, None)
    gpu.set("power_limit_mw", 400000)
    assert "left as it is: somebody else has limited" in fault.undo(record).what
    assert fault.undo(record).proven
    assert gpu.get("power_limit_mw") == 400000
    assert "somebody else's, left as it is" in fault.verify_undone(record).what


def test_undo_of_another_runs_record_touches_nothing(gpu: Any, on_device: Victim) -> None:
    fault = GpuPowerCap()
    record = fault.undo_record(on_device)
    fault.inject(on_device, None)
    other = dataclasses.replace(on_device, fault="f2")
    theirs = dataclasses.replace(record, data={**record.data, "token": token_of(other)})
    assert fault.undo(theirs).proven
    assert gpu.get("power_limit_mw") == 200000
    assert fault.undo(record).proven


def test_without_the_right_it_is_not_fired(gpu: Any, on_device: Victim) -> None:
    gpu.set("read_only", 1)
    fault = GpuPowerCap()
    record = fault.undo_record(on_device)
    fired = fault.inject(on_device, None)
    assert (fired.proven, "run as root" in fired.what) == (False, True)
    assert not fault.verify(on_device, fired).proven
    # Nothing was set, so nothing is restored, and no right is needed.
    assert fault.undo(record).proven
    assert fault.verify_undone(record).proven


@pytest.mark.parametrize("params", [{"share": -0.1}, {"share": 1.0}, {"duration_s": 4000}])
def test_bad_parameters_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(FaultError, match=next(iter(params))):
        GpuPowerCap.from_params(params)
