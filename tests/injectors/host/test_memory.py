from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from injectors import signals
from injectors.fault import FaultError, Victim
from injectors.host import cgroup
from injectors.host.memory import HostMemory, exempted, settings

Plan = Callable[..., dict[str, Any]]
Where = Callable[[Victim, str], Path]


@pytest.mark.slow
@pytest.mark.usefixtures("groups")
def test_the_kernel_ends_the_victim_and_no_one_else(rig: Any, planned: Plan, sleeper: Victim) -> None:
    outcome = rig.run("loops.py", "adamw", 3, world=2, faults=[planned("host.memory", 1, step=1)])
    assert outcome.codes == [0, -signal.SIGKILL], outcome.output
    seen = outcome.verified["f1"]
    assert seen.proven, seen.what
    assert seen.data["oom_kill"] == 1
    assert signals.is_alive(sleeper.pid, sleeper.start_ticks)
    fault, record = rig.fault("f1"), outcome.records["f1"]
    assert Path(record.data["group"]).is_dir()
    for _ in range(2):
        assert fault.undo(record).proven
        assert fault.verify_undone(record).proven
    assert not Path(record.data["group"]).exists()


@pytest.mark.slow
@pytest.mark.usefixtures("groups")
def test_without_a_limit_it_lives_and_the_evidence_says_so(
    rig: Any, planned: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("injectors.host.memory.settings", lambda version, limit: [])
    monkeypatch.setattr("injectors.host.memory.KILLED_S", 0.5)
    outcome = rig.run("loops.py", "adamw", 3, world=1, faults=[planned("host.memory", 0, step=1)])
    rig.fault("f1").undo(outcome.records["f1"])
    assert outcome.codes == [0]
    assert not outcome.verified["f1"].proven
    assert "struck 0 times" in outcome.verified["f1"].what
    assert "no limit is in force" in outcome.report("failed", "f1").evidence.what


@pytest.mark.usefixtures("groups")
def test_it_needs_an_agent(sleeper: Victim, where: Where) -> None:
    before = where(sleeper, "memory")
    assert not HostMemory().inject(sleeper, None).proven
    assert where(sleeper, "memory") == before


def test_a_process_that_the_killer_would_spare_is_refused(
    sleeper: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert exempted(sleeper.pid) is None
    monkeypatch.setattr("injectors.host.memory.exempted", lambda pid: "pid 1 is exempt from the killer")
    with pytest.raises(FaultError, match=r"exempt|can not be|no cgroup"):
        HostMemory().undo_record(sleeper)


def test_a_dead_process_is_refused(dead: Victim) -> None:
    with pytest.raises(FaultError):
        HostMemory().undo_record(dead)


def test_no_controller_is_a_refusal(sleeper: Victim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "find", lambda controller: None)
    with pytest.raises(FaultError, match="no cgroup controller memory"):
        HostMemory().undo_record(sleeper)


def test_settings_of_both_versions() -> None:
    assert settings(1, 1 << 20)[0] == ("memory.limit_in_bytes", "1048576")
    assert settings(2, 1 << 20)[0] == ("memory.max", "1048576")
