from __future__ import annotations

from typing import Any

import pytest

from chaos.shrinking.jobs import replaced, smaller_jobs, with_steps, with_world
from tests.chaos.shrinking.planned import TARGET, kill, scenario_of

COMMAND = {"kind": "command", "world": 4, "argv": ["torchrun", "--nproc-per-node", "4", "t.py", "--steps=30"]}


def test_a_rank_that_is_no_longer_there_becomes_one_that_is() -> None:
    scenario = scenario_of([kill(3), kill(role="lowest_live", step=25)])
    found = dict(smaller_jobs(scenario))
    assert [fault.where for fault in found["2 ranks"].faults] == [{"rank": 1}, {"role": "lowest_live"}]
    assert found["2 ranks"].target["world"] == 2
    assert [fault.where for fault in found["3 ranks"].faults] == [{"rank": 0}, {"role": "lowest_live"}]


def test_faults_come_earlier_together_and_then_the_job_is_shorter() -> None:
    found = dict(smaller_jobs(scenario_of([kill(0), kill(1, 26)])))
    assert [fault.when["step"] for fault in found["the first fault at step 3"].faults] == [3, 9]
    shorter = found["36 steps"].target
    assert (shorter["steps"], shorter["args"]) == (36, ["--steps", "36"])
    assert "the first fault at step 3" not in dict(smaller_jobs(scenario_of([kill(0, 3)])))


@pytest.mark.parametrize(
    ("target", "world", "expected"),
    [
        (TARGET, 2, {**TARGET, "world": 2}),
        ({**TARGET, "cluster": {"kind": "netns", "nodes": 2}}, 3, None),
        ({**TARGET, "cluster": {"kind": "netns", "nodes": 2}}, 2, 2),
        (COMMAND, 3, ["torchrun", "--nproc-per-node", "3", "t.py", "--steps=30"]),
        ({**COMMAND, "argv": ["python", "t.py"]}, 3, None),
        # Two nodes with two ranks each.
        (
            {**COMMAND, "argv": ["torchrun", "--nproc_per_node=2"], "cluster": {"kind": "netns", "nodes": 2}},
            2,
            ["torchrun", "--nproc_per_node=1"],
        ),
        ({"kind": "custom", "world": 3}, 2, {"kind": "custom", "world": 2}),
    ],
)
def test_a_world_is_told_to_the_launcher(target: dict[str, Any], world: int, expected: object) -> None:
    found = with_world(target, world)
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert found["world"] == world
        assert expected in (found, found.get("argv"), found["world"])


def test_steps_are_told_to_the_script_or_left() -> None:
    command = with_steps({**COMMAND, "steps": 30}, 12)
    assert command is not None
    assert command["argv"][-1] == "--steps=12"
    assert with_steps({**COMMAND, "steps": 31}, 12) is None
    assert with_steps({**TARGET, "args": []}, 12) is None
    assert with_steps({"kind": "custom", "steps": 30}, 12) == {"kind": "custom", "steps": 12}


def test_only_the_value_of_the_flag_is_replaced() -> None:
    words = ["x", "4", "--n", "4", "--m=4"]
    assert replaced(words, ("--n",), "4", "2") == ["x", "4", "--n", "2", "--m=4"]
    assert replaced(words, ("--m",), "4", "2") == ["x", "4", "--n", "4", "--m=2"]
    assert replaced(words, ("--k",), "4", "2") is None
    assert replaced(["--n"], ("--n",), "4", "2") is None
