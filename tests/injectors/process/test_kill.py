from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from injectors.fault import FaultError, Victim
from injectors.process.kill import ProcessKill

Plan = Callable[..., dict[str, Any]]


def test_it_ends_the_process_and_the_kernel_says_so(sleeper: Victim) -> None:
    fault = ProcessKill()
    assert fault.inject(sleeper, None).proven
    seen = fault.verify(sleeper)
    assert seen.proven
    assert seen.source == "kernel"
    assert seen.data["state"] == "Z"


def test_a_victim_that_is_gone_proves_nothing(dead: Victim) -> None:
    assert not ProcessKill().inject(dead, None).proven


def test_a_stranger_is_not_hit(stranger: Victim) -> None:
    fault = ProcessKill()
    assert not fault.inject(stranger, None).proven


def test_there_is_nothing_to_undo(sleeper: Victim) -> None:
    assert ProcessKill().undo_record(sleeper) is None
    assert not ProcessKill.has_undo


def test_it_has_no_parameters() -> None:
    with pytest.raises(FaultError, match=r"process\.kill: unknown parameter 'signal'"):
        ProcessKill.from_params({"signal": "SIGKILL"})


@pytest.mark.slow
def test_it_hits_one_rank_of_a_job_in_the_named_phase(rig: Any, planned: Plan) -> None:
    outcome = rig.run("ddp.py", 6, faults=[planned("process.kill", 1, step=3, phase="backward")])
    assert outcome.codes[1] == -9
    assert outcome.codes[0] != 0
    assert outcome.verified["f1"].proven
    assert [event["step"] for event in outcome.commits(1)] == [0, 1, 2]
    assert [event["step"] for event in outcome.commits(0)] == [0, 1, 2]
    assert outcome.reached[0].pid == rig.pids[1]
