"""The agent in a process of our own runtime: steps come from its events, faults reach into its recovery."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from injectors import boot

pytestmark = pytest.mark.slow
Plan = Callable[..., dict[str, Any]]
JOBS = Path(__file__).parent.parent / "jobs"
ROOT = Path(boot.__file__).parent.parent


@pytest.fixture
def run(rig: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def run(*args: Any, faults: list[dict[str, Any]] | None = None, role: str = "worker") -> Any:
        original = rig.configure
        monkeypatch.setattr(
            rig, "configure", lambda *a, **k: {**original(*a, **k), "RECOVERY_ROLE": role}, raising=True
        )
        return rig.run("stand_in_runtime.py", *args, faults=faults, world=1, step_source="recovery")

    return run


def test_without_faults_the_runtime_is_left_alone(run: Any) -> None:
    outcome = run(1, 0, 1)
    assert outcome.codes == [0], outcome.output
    # Steps are the runtime's to report.
    assert [event["event"] for event in outcome.events] == ["agent.installed"]
    assert "recovery.events" in outcome.events[0]["hooks"]


def test_no_frame_of_ours_is_between_the_user_and_the_group(run: Any, planned: Plan) -> None:
    faults = [planned("collective.delay", 0, {"duration_s": 0.01}, step=1)]
    outcome = run(1, 0, 1, 2, faults=faults)
    assert outcome.fired["f1"].proven
    callers = {line for line in outcome.output.splitlines() if line.startswith("caller")}
    assert callers == {"caller distributed_c10d.py", "caller stand_in_runtime.py"}


@pytest.mark.parametrize("phase", ["data", "forward", "backward", "optimizer", "commit"])
def test_phases_of_a_step(run: Any, planned: Plan, phase: str) -> None:
    outcome = run(1, 0, 1, faults=[planned("process.kill", 0, step=1, phase=phase)])
    assert outcome.codes == [-9]
    assert "committed 0" in outcome.output
    assert "committed 1" not in outcome.output
    assert (outcome.reached[0].step, outcome.reached[0].phase) == (1, phase)


def test_a_step_that_is_replayed_finds_its_fault_spent(run: Any, planned: Plan) -> None:
    outcome = run(1, 0, 1, 1, 2, faults=[planned("collective.error", 0, step=1)])
    assert outcome.codes == [0]
    assert outcome.output.count("raised torch-chaos f1: collective.error in allreduce") == 1
    assert outcome.output.count("committed") == 3


def test_the_inner_seam_is_below_the_runtimes_group(run: Any, planned: Plan) -> None:
    fault = planned("collective.corrupt", 0, {"bit": 22, "element": 0.0}, step=1)
    outcome = run(1, 0, 1, 2, faults=[fault])
    sums = [line for line in outcome.output.splitlines() if line.startswith("sum")]
    assert sums == ["sum [3.0, 3.0, 3.0, 3.0]", "sum [2.0, 3.0, 3.0, 3.0]", "sum [3.0, 3.0, 3.0, 3.0]"]
    assert outcome.fired["f1"].proven


@pytest.mark.parametrize(("nth", "code"), [(2, -9), (3, 0)])
def test_a_collective_made_of_others_is_one(run: Any, planned: Plan, nth: int, code: int) -> None:
    # all_reduce and barrier: the barrier's own all_reduce is not the user's.
    outcome = run(1, 0, faults=[planned("process.kill", 0, step=0, collective={"nth": nth})])
    assert outcome.codes == [code]
    assert [reached.collective["op"] for reached in outcome.reached] == (["barrier"] if nth == 2 else [])


def test_an_event_in_the_middle_of_a_recovery(run: Any, planned: Plan) -> None:
    faults = [
        {**planned("process.kill", 0, event="recovery.transfer"), "where": {"role": "transfer_target"}},
        {**planned("process.kill", 0, event="recovery.transfer"), "where": {"role": "replacement"}},
        {**planned("process.kill", 0, event="recovery.transfer"), "where": {"role": "transfer_source"}},
    ]
    outcome = run(1, 0, "1:recovery.transfer", faults=faults)
    assert outcome.codes == [-9]
    # Neither the target nor a replacement: those two were not even asked about.
    assert [reached.fault for reached in outcome.reached] == ["f3"]
    assert outcome.reached[0].event == "recovery.transfer"
    assert outcome.reached[0].fields["sources"] == [0]


def test_a_process_that_came_later_is_a_replacement(run: Any, planned: Plan) -> None:
    fault = {**planned("process.kill", 0, event="member.enter"), "where": {"role": "replacement"}}
    outcome = run(3, 7, faults=[fault])
    assert outcome.codes == [-9]
    assert outcome.reached[0].fields["fresh"] is True
    assert outcome.reached[0].generation == 3


def test_an_exception_is_never_raised_in_the_runtimes_own_code(run: Any, planned: Plan) -> None:
    faults = [planned("process.exception", 0, step=1, phase="data"), planned("process.exception", 0, step=1)]
    outcome = run(1, 0, 1, 2, faults=faults)
    assert outcome.codes == [0], outcome.output
    # "data" begins inside a listener, so that one never comes; the other is raised in the forward.
    assert [reached.fault for reached in outcome.reached] == ["f2"]
    assert outcome.output.count("raised torch-chaos f2") == 1


def test_the_supervisor_meets_faults_of_other_ranks_at_its_events(run: Any, planned: Plan) -> None:
    def other(reached: Any, rig: Any) -> None:
        assert (reached.rank, reached.event) == (None, "recovery.detect")

    faults = [
        planned("process.kill", 3, event="recovery.detect"),
        planned("process.exit", 3, event="recovery.detect"),
    ]
    outcome = run(1, "0:recovery.detect", faults=faults, role="supervisor")
    # An inside fault belongs into the victim's own process.
    assert [reached.fault for reached in outcome.reached] == ["f1"]
    assert (outcome.reached[0].rank, outcome.reached[0].event) == (None, "recovery.detect")


def test_another_module_of_that_name_is_left_alone() -> None:
    from types import ModuleType

    from injectors.agent import core, runtime

    module = ModuleType("recovery.events")
    module.listeners = []  # type: ignore[attr-defined]
    runtime.install(core.Agent(), module)
    assert module.listeners == []  # type: ignore[attr-defined]


@pytest.mark.timeout(120)
def test_the_real_runtime(rig: Any, planned: Plan) -> None:
    """The stand-in, compared once with what it stands for."""
    pytest.importorskip("recovery.launch")
    faults = [
        planned("process.kill", 1, step=3, phase="backward"),
        planned("collective.delay", 0, {"duration_s": 0.05}, step=6, phase="bucket"),
        planned("collective.error", 1, step=9, phase="backward"),
    ]
    rig.configure(faults, step_source="recovery", observe=False)
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "RECOVERY_DIGEST": "1"}
    env["RECOVERY_EVENTS"] = str(rig.folder / "events.jsonl")
    command = [sys.executable, "-m", "recovery.launch", "--nproc-per-node", "2", "--spares", "1"]
    done = subprocess.run(
        [*command, str(JOBS / "runtime.py"), "12"],
        env=boot.environment(rig.folder / "agent.json", env),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    outcome = rig.finish()
    assert done.returncode == 0, done.stderr
    assert {name for name, evidence in outcome.verified.items() if evidence.proven} == {"f1", "f2", "f3"}
    last = [e["digest"] for e in outcome.events if e["event"] == "step.commit" and e["step"] == 11]
    assert len(last) == 2
    assert len(set(last)) == 1
    kinds = [e["kind"] for e in outcome.events if e["event"] == "recovery.detect"]
    assert set(kinds) <= {"crash", "collective_error"}
