from __future__ import annotations

import dataclasses
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from injectors import marks, signals
from injectors.fault import FaultError, Victim
from injectors.gpu import nvml, owning


@pytest.fixture
def peer() -> Iterator[Victim]:
    """A process that carries the marker of a run."""
    process = subprocess.Popen(["sleep", "60"], env={**os.environ, marks.MARKER: "run-1"})
    ticks = signals.start_ticks(process.pid)
    assert ticks is not None
    yield Victim(pid=process.pid, start_ticks=ticks)
    process.kill()
    process.wait()


def test_processes_of_the_same_run_are_no_strangers(gpu: Any, sleeper: Victim, peer: Victim) -> None:
    gpu.set("processes", f"{sleeper.pid} 1\n{peer.pid} 1")
    ours = dataclasses.replace(sleeper, run="run-1")
    with nvml.session() as session:
        assert owning.device_of(session, ours, "").index == 0
        with pytest.raises(FaultError, match=f"compute on it: {peer.pid}"):
            owning.device_of(session, dataclasses.replace(sleeper, run="run-2"), "")
        with pytest.raises(FaultError, match=f"compute on it: {peer.pid}"):
            owning.device_of(session, sleeper, "0")


def test_an_idle_device_that_is_named_may_be_used(gpu: Any, sleeper: Victim) -> None:
    with nvml.session() as session:
        assert owning.device_of(session, sleeper, "1").uuid == gpu.uuids[1]


def test_the_run_is_read_from_the_environment_that_a_process_was_started_with(
    peer: Victim, sleeper: Victim, dead: Victim
) -> None:
    assert marks.run_of(peer.pid) == "run-1"
    assert marks.run_of(sleeper.pid) == os.environ.get(marks.MARKER, "")
    assert marks.run_of(dead.pid) == ""
