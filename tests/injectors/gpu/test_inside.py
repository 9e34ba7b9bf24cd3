"""Faults that the agent carries out. stuck_kernel and device_assert meet a STAND-IN for torch's CUDA here."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from injectors import boot
from injectors.agent import act_gpu
from injectors.fault import Evidence, FaultError, Victim
from injectors.gpu.device_assert import GpuDeviceAssert
from injectors.gpu.stuck_kernel import GpuStuckKernel
from injectors.gpu.xid_sim import GpuXidSim

Plan = Callable[..., dict[str, Any]]


class StandInCuda:
    """As much of torch as the two faults use; a context that an assertion has failed in is lost for good."""

    __version__ = "STAND-IN"
    int32 = "int32"

    def __init__(self, asserts: bool = True, recovers: bool = False) -> None:
        self.asserts, self.recovers = asserts, recovers
        self.lost = False
        self.released = threading.Event()
        self.cuda = SimpleNamespace(
            is_available=lambda: True,
            is_initialized=lambda: True,
            synchronize=self._synchronize,
            current_stream=lambda: SimpleNamespace(
                query=self.released.is_set, synchronize=lambda: self.released.wait(10)
            ),
            _compile_kernel=lambda source, name: lambda *args: None,
        )

    def zeros(self, size: int, **kwargs: Any) -> Any:
        return SimpleNamespace(fill_=lambda value: self.released.set())

    def ones(self, size: int, **kwargs: Any) -> Any:
        return SimpleNamespace(add_=lambda value: None)

    def _assert_async(self, value: Any) -> None:
        self.lost = self.asserts

    def _synchronize(self) -> None:
        if self.lost:
            self.lost = not self.recovers
            raise RuntimeError("CUDA error: device-side assert triggered")


class Recorder:
    """The agent, as far as an act sees it."""

    phase, step = "backward", 3

    def __init__(self) -> None:
        self.link = SimpleNamespace(path="/nonexistent")
        self.said: list[tuple[str, str, bool, dict[str, Any]]] = []

    def report(self, op: str, armed: Any, what: str, proven: bool = True, **data: Any) -> None:
        self.said.append((op, what, proven, data))


def armed(**params: Any) -> Any:
    return SimpleNamespace(id="f1", params=params)


class Channel:
    """The line to an agent that reports what it is given."""

    def __init__(self, answer: Evidence) -> None:
        self.answer = answer

    def act(self, timeout_s: float = 10.0) -> Evidence:
        return self.answer


# -- the assertion


def test_an_assertion_fails_the_context_is_lost_and_the_error_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", StandInCuda())
    agent: Any = Recorder()
    error = act_gpu.device_assert(agent, armed())
    assert isinstance(error, RuntimeError)
    assert error.__traceback__ is None
    op, what, proven, data = agent.said[0]
    assert (op, proven, data) == ("fired", True, {"error": "RuntimeError", "context_lost": True})
    assert what.endswith("device-side assert triggered; a sound operation fails too")


@pytest.mark.parametrize(
    ("cuda", "op"), [(StandInCuda(asserts=False), "failed"), (StandInCuda(recovers=True), "fired")]
)
def test_an_assertion_without_its_effect_is_not_proven(
    monkeypatch: pytest.MonkeyPatch, cuda: StandInCuda, op: str
) -> None:
    monkeypatch.setitem(sys.modules, "torch", cuda)
    agent: Any = Recorder()
    act_gpu.device_assert(agent, armed())
    assert [said[:1] + said[2:3] for said in agent.said] == [(op, False)]


# -- the kernel


def test_the_kernel_is_launched_and_seen_by_nvml(
    gpu: Any, on_device: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", StandInCuda())
    agent: Any = Recorder()
    act_gpu.stuck_kernel(agent, armed(duration_s=0.05))
    op, what, proven, data = agent.said[0]
    assert (op, proven, data["mode"]) == ("fired", True, "device")
    fired = Evidence(what, proven, "agent", data)
    fault = GpuStuckKernel(duration_s=0.05)
    assert fault.inject(on_device, Channel(fired)) == fired
    seen = fault.verify(on_device, fired)
    assert (seen.proven, seen.data["utilization_percent"]) == (True, 100)
    assert seen.what.startswith("STAND-IN NVML: device 0")


def test_an_idle_device_proves_no_stuck_kernel(
    gpu: Any, on_device: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("injectors.gpu.nvml.Device.utilization_percent", lambda device: 3)
    fired = Evidence("a kernel occupies the stream", True, "agent", {"mode": "device"})
    assert not GpuStuckKernel(duration_s=0.05).verify(on_device, fired).proven


def test_where_nvml_does_not_list_the_victim_its_own_sight_is_said_to_be_the_only_one(
    gpu: Any, sleeper: Victim
) -> None:
    fired = Evidence("a kernel occupies the stream", True, "agent", {"mode": "device"})
    seen = GpuStuckKernel().verify(sleeper, fired)
    assert (seen.proven, seen.source) == (True, "agent")
    assert "NVML does not show it" in seen.what
    assert not GpuStuckKernel().verify(sleeper, None).proven


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpu.stuck_kernel", "gpu.device_assert"])
def test_a_rank_without_cuda_says_so_and_goes_on(rig: Any, planned: Plan, name: str) -> None:
    outcome = rig.run("ddp.py", 4, faults=[planned(name, 1, step=2, phase="backward")])
    assert outcome.codes == [0, 0], outcome.output
    fired = outcome.fired["f1"]
    assert (fired.proven, fired.what) == (False, "CUDA is not in use in this process")
    assert not outcome.verified["f1"].proven


# -- the simulated Xid


def test_the_event_arrives_by_nvml_and_the_evidence_says_simulated(gpu: Any, on_device: Victim) -> None:
    raised = Evidence("SIMULATED Xid 48 (double bit ECC error): raises", True, "agent", {"xid": 48})
    fault = GpuXidSim(xid=48)
    fired = fault.inject(on_device, Channel(raised))
    assert fired.data["simulated"] is True
    assert fired.data["nvml_event"]["arrived"] == 48
    assert fired.data["nvml_event"]["what"].startswith("STAND-IN NVML reported Xid 48 of device 0")
    seen = fault.verify(on_device, fired)
    assert seen.proven
    assert seen.what.startswith("SIMULATED: ")


def test_an_event_that_does_not_arrive_is_not_proven(
    gpu: Any, on_device: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("injectors.gpu.nvml.Session.provoke_xid", lambda *args: None)
    fault = GpuXidSim()
    fired = fault.inject(on_device, Channel(Evidence("SIMULATED Xid 79", True, "agent")))
    assert not fault.verify(on_device, fired).proven


def test_without_a_device_there_is_the_error_alone(gpu: Any, sleeper: Victim) -> None:
    fault = GpuXidSim()
    fired = fault.inject(sleeper, Channel(Evidence("SIMULATED Xid 79", True, "agent")))
    assert fired.data["nvml_event"]["sent"] is None
    assert "computes on no device" in fired.what
    assert fault.verify(sleeper, fired).proven
    assert not fault.verify(sleeper, None).proven


def test_the_real_library_is_not_asked_for_an_event(
    gpu: Any, on_device: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("injectors.gpu.nvml.STAND_IN_XID", "no_such_function")
    fired = GpuXidSim().inject(on_device, Channel(Evidence("SIMULATED Xid 79", True, "agent")))
    assert fired.data["nvml_event"]["what"] == "none, the real NVML can not be told to"
    assert gpu.get("xid") == 0


@pytest.mark.slow
def test_the_error_is_raised_in_the_training_code_of_the_rank(rig: Any, planned: Plan) -> None:
    outcome = rig.run("ddp.py", 6, faults=[planned("gpu.xid_sim", 1, {"xid": 94}, step=2, phase="backward")])
    assert outcome.codes[1] != 0
    assert "AcceleratorError: CUDA error: uncorrectable ECC error encountered" in outcome.output
    assert "gpu.xid_sim, SIMULATED Xid 94 (contained memory error), raised on purpose" in outcome.output
    assert outcome.fired["f1"].data["simulated"] is True
    assert outcome.verified["f1"].proven


@pytest.mark.parametrize("xid", [1, 14, 200, 79.5, "79"])
def test_a_number_that_is_no_known_xid_is_refused(xid: Any) -> None:
    with pytest.raises(FaultError, match="xid"):
        GpuXidSim.from_params({"xid": xid})


def test_the_agent_needs_no_default_of_its_own() -> None:
    for kind in (GpuStuckKernel, GpuDeviceAssert, GpuXidSim):
        made = boot.complete({"id": "f1", "name": kind.id, "where": {"rank": 0}, "when": {"step": 1}})
        assert set(made["params"]) == {item.name for item in kind.parameters()}
