"""The faults that the agent carries out inside one rank: exception, exit, gil_lock, oom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from injectors.agent import acts
from injectors.fault import Evidence, FaultError, Victim
from injectors.process.exception import ProcessException
from injectors.process.exit import ProcessExit
from injectors.process.gil_lock import ProcessGilLock
from injectors.process.oom import ProcessOom

Plan = Callable[..., dict[str, Any]]
VICTIM = Victim(pid=2**22 + 1, start_ticks=1)


class Gone:
    """A line to an agent that is no more."""

    def act(self, timeout_s: float = 10.0) -> Evidence:
        return Evidence("the agent is gone", False, "agent")


@pytest.mark.parametrize("fault", [ProcessException(), ProcessGilLock(), ProcessOom()], ids=lambda f: f.id)
def test_without_an_agent_nothing_is_proven(fault: Any) -> None:
    assert not fault.inject(VICTIM, None).proven
    lost = fault.inject(VICTIM, Gone())
    assert not lost.proven
    assert not fault.verify(VICTIM, lost).proven
    assert not fault.verify(VICTIM, None).proven
    assert fault.undo_record(VICTIM) is None


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (ProcessException, {"error": "Exception"}),
        (ProcessExit, {"code": 256}),
        (ProcessExit, {"code": 1.5}),
        (ProcessGilLock, {"duration_s": 0}),
        (ProcessGilLock, {"duration_s": None}),
        (ProcessOom, {"allocator": "malloc"}),
        (ProcessOom, {"headroom_bytes": 1000}),
    ],
)
def test_bad_parameters_are_refused(kind: Any, params: dict[str, Any]) -> None:
    with pytest.raises(FaultError, match=next(iter(params))):
        kind.from_params(params)


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["forward", "backward", "optimizer"])
@pytest.mark.parametrize("error", ["RuntimeError", "OutOfMemoryError"])
def test_an_exception_comes_out_of_the_training_code(rig: Any, planned: Plan, phase: str, error: str) -> None:
    fault = planned("process.exception", 0, {"error": error}, step=1, phase=phase)
    outcome = rig.run("loops.py", "raises", world=1, faults=[fault])
    assert outcome.codes == [0]
    assert f"came out: {error} torch-chaos f1: process.exception" in outcome.output
    assert [event["step"] for event in outcome.commits(0)] == [0]
    assert outcome.fired["f1"].proven


@pytest.mark.parametrize("name", acts.ERRORS)
def test_every_error_has_a_class(name: str) -> None:
    assert issubclass(acts.error_class(name), BaseException)


@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 3])
def test_exit_leaves_with_the_code(rig: Any, planned: Plan, code: int) -> None:
    outcome = rig.run(
        "loops.py", "raises", world=1, faults=[planned("process.exit", 0, {"code": code}, step=1)]
    )
    assert outcome.codes == [code]
    assert "came out" not in outcome.output
    assert outcome.verified["f1"].proven
    assert outcome.verified["f1"].source == "kernel"


@pytest.mark.slow
def test_the_lock_is_held_and_no_thread_beats(rig: Any, planned: Plan) -> None:
    fault = planned("process.gil_lock", 0, {"duration_s": 0.3}, step=1, phase="forward")
    outcome = rig.run("loops.py", "heartbeat", world=1, faults=[fault])
    assert outcome.codes == [0]
    gap = float(outcome.output.split("longest gap")[1].split()[0])
    assert 0.29 < gap < 0.6
    assert outcome.verified["f1"].what.endswith("sleeps in the C call")
    assert outcome.report("undone", "f1").evidence.data["held_s"] == pytest.approx(0.3, abs=0.1)


@pytest.mark.slow
def test_without_the_fault_the_thread_beats(rig: Any) -> None:
    outcome = rig.run("loops.py", "heartbeat", world=1)
    assert float(outcome.output.split("longest gap")[1].split()[0]) < 0.25


@pytest.mark.slow
@pytest.mark.parametrize(("allocator", "error"), [("torch", "RuntimeError"), ("python", "MemoryError")])
def test_a_real_allocation_fails_and_the_limit_is_lifted(
    rig: Any, planned: Plan, allocator: str, error: str
) -> None:
    params = {"allocator": allocator, "headroom_bytes": 32 << 20}
    outcome = rig.run("loops.py", "limit", world=1, faults=[planned("process.oom", 0, params, step=1)])
    assert outcome.codes == [0], outcome.output
    assert f"came out: {error}" in outcome.output
    assert "limit unchanged: True" in outcome.output
    assert outcome.fired["f1"].data["error"] == error
    assert outcome.fired["f1"].data["taken_bytes"] >= 16 << 20


def test_an_error_of_our_own_does_not_reach_the_target() -> None:
    class Agent:
        said: tuple[Any, ...] = ()

        def report(self, *args: Any, **fields: Any) -> None:
            self.said = args

    class Armed:
        name = "process.exit"
        params: dict[str, Any] = {}  # noqa: RUF012  a stand-in, never shared

    agent = Agent()
    assert acts.perform(agent, Armed()) is None  # type: ignore[arg-type]
    assert agent.said[0] == "failed"
    assert "KeyError" in agent.said[2]
