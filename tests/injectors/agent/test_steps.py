"""What a step is in a script that knows nothing of us."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
Plan = Callable[..., dict[str, Any]]


def steps(outcome: Any) -> list[int]:
    return [event["step"] for event in outcome.commits(0)]


def rule(outcome: Any) -> dict[str, Any]:
    return next(event for event in outcome.events if event["event"] == "step.rule")


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("adamw", [0, 1, 2]),
        ("sgd", [0, 1, 2]),
        ("accumulate", [0, 1, 2]),
        ("gan", [0, 1, 2]),
        ("closure", [0, 1]),
    ],
)
def test_the_default_rule_fits_the_loop(rig: Any, shape: str, expected: list[int]) -> None:
    outcome = rig.run("loops.py", shape, world=1)
    assert outcome.codes == [0], outcome.output
    assert steps(outcome) == expected


def test_a_step_that_the_scaler_left_out_is_a_step(rig: Any) -> None:
    outcome = rig.run("loops.py", "scaler", world=1)
    assert steps(outcome) == [0, 1, 2, 3]
    assert [event.get("skipped", False) for event in outcome.commits(0)] == [False, True, False, False]


def test_the_second_optimizer_may_be_chosen(rig: Any) -> None:
    outcome = rig.run("loops.py", "gan", world=1, step_rule={"rule": "optimizer", "index": 1})
    assert steps(outcome) == [0, 1, 2]
    assert rule(outcome)["optimizer"] == "SGD"


def test_n_optimizer_steps_may_be_one(rig: Any) -> None:
    outcome = rig.run("loops.py", "adamw", 7, world=1, step_rule={"rule": "every_n", "n": 3})
    assert steps(outcome) == [0, 1]


def test_steps_read_off_the_output_are_told_by_the_engine(rig: Any, planned: Plan) -> None:
    def tell(reached: Any) -> None:
        if reached.fault == "f1":
            rig.server.send_step(40)

    rig.on_hit = tell
    faults = [
        planned("process.gil_lock", 0, {"duration_s": 0.001}, phase="optimizer"),
        planned("process.exit", 0, {"code": 7}, step=40, phase="forward"),
    ]
    stdout = {"rule": "stdout", "pattern": "step (\\d+)"}
    outcome = rig.run("loops.py", "adamw", 5, world=1, faults=faults, step_rule=stdout)
    assert outcome.codes == [7]
    assert [(reached.fault, reached.step) for reached in outcome.reached] == [("f1", 0), ("f2", 40)]
    assert steps(outcome) == []


def test_a_resumed_process_goes_on_counting(rig: Any, tmp_path: Path) -> None:
    saved = tmp_path / "optimizer.pt"
    assert rig.run("loops.py", "resume", saved, world=1).codes == [0]
    assert rule(rig.outcome)["detail"].startswith("the first step of this process is counted from 0")


def test_a_resumed_process_counts_from_the_optimizers_own_step(
    rig: Any, tmp_path: Path, template: Any
) -> None:
    saved = tmp_path / "optimizer.pt"
    request = {
        "script": str(Path(__file__).parent.parent / "jobs" / "loops.py"),
        "args": ["resume", str(saved)],
        "ranks": [{}],
        "stdout": str(tmp_path / "first.txt"),
    }
    template.launch(request)
    assert template.wait() == [0]
    outcome = rig.run("loops.py", "resume", "saved", saved, world=1)
    assert outcome.codes == [0], outcome.output
    assert steps(outcome) == [5, 6]
    assert rule(outcome)["step"] == 5
    assert "the optimizer's own count of updates, 5" in rule(outcome)["detail"]


def test_the_resumed_number_is_known_before_the_first_forward(
    rig: Any, tmp_path: Path, template: Any, planned: Plan
) -> None:
    saved = tmp_path / "optimizer.pt"
    template.launch(
        {
            "script": str(Path(__file__).parent.parent / "jobs" / "loops.py"),
            "args": ["resume", str(saved)],
            "ranks": [{}],
            "stdout": str(tmp_path / "first.txt"),
        }
    )
    template.wait()
    fault = planned("process.exit", 0, {"code": 9}, step=5, phase="forward")
    outcome = rig.run("loops.py", "resume", "saved", saved, world=1, faults=[fault])
    assert outcome.codes == [9]


def test_a_step_that_raised_does_not_hide_the_next(rig: Any) -> None:
    outcome = rig.run("loops.py", "failing", world=1)
    assert "caught" in outcome.output
    assert outcome.codes == [0], outcome.output
    assert steps(outcome) == [0, 1]


def test_a_forked_child_of_a_rank_takes_no_part(rig: Any, planned: Plan) -> None:
    fault = planned("process.kill", 0, step=4, phase="forward")
    outcome = rig.run("loops.py", "child", world=1, faults=[fault])
    assert outcome.codes == [0]
    assert steps(outcome) == [0, 1]
    assert not outcome.reached


def test_the_template_stays_asleep_and_single_threaded(template: Any, rig: Any) -> None:
    # It has made a training step of its own before the first fork.
    assert template.threads == 1
    outcome = rig.run("loops.py", "sgd", world=1)
    assert {event["pid"] for event in outcome.events} == {rig.pids[0]}


def test_digests_repeat_and_follow_the_state(rig: Any, tmp_path: Path) -> None:
    outcome = rig.run("loops.py", "adamw", world=1, digest=True)
    commits = outcome.commits(0)
    assert len({commit["digest"] for commit in commits}) == 3
    assert set(commits[0]["parts"]) == {"params", "optimizer", "buffers", "hyper"}
    assert len({commit["parts"]["hyper"] for commit in commits}) == 1
    installed = next(event for event in outcome.events if event["event"] == "agent.installed")
    assert installed["digest"] in ("xxh3_128", "blake2b")
    assert "problems" not in installed
    assert all(isinstance(commit["loss"], float) for commit in commits)


PHASES = ["forward", "backward", "optimizer", "data"]


@pytest.mark.parametrize("phase", PHASES)
def test_phases_are_where_they_should_be(rig: Any, planned: Plan, phase: str) -> None:
    """Killed at the entry of a phase of step 2: steps 0 and 1 are committed."""
    outcome = rig.run(
        "loops.py", "adamw", 4, world=1, faults=[planned("process.kill", 0, step=2, phase=phase)]
    )
    assert outcome.codes == [-9]
    assert steps(outcome) == [0, 1]
    reached = outcome.reached[0]
    assert (reached.step, reached.phase, reached.rank, reached.generation) == (2, phase, 0, 1)


def test_the_second_backward_of_a_step_can_be_named(rig: Any, planned: Plan) -> None:
    fault = planned("process.kill", 0, step=1, phase="backward", occurrence=2)
    outcome = rig.run("loops.py", "accumulate", world=1, faults=[fault])
    assert outcome.codes == [-9]
    assert steps(outcome) == [0]


def test_a_trigger_that_never_comes_does_nothing(rig: Any, planned: Plan) -> None:
    faults = [
        planned("process.kill", 0, step=99),
        planned("process.kill", 1, step=1),
        planned("process.kill", 0, event="recovery.detect"),
        planned("process.kill", 0, step=1, phase="bucket"),
        planned("collective.hang", 0, step=1),
    ]
    outcome = rig.run("loops.py", "adamw", world=1, faults=faults)
    assert outcome.codes == [0]
    assert not outcome.reached
    assert steps(outcome) == [0, 1, 2]
