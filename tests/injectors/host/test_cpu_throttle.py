from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from injectors import helpers, signals, undo
from injectors.fault import FaultError, UndoRecord, Victim
from injectors.host import cgroup, duty
from injectors.host.cpu_throttle import HostCpuThrottle, settings

Where = Callable[[Victim, str], Path]


def own_group(record: UndoRecord) -> Path:
    return Path(record.data["group"])


@pytest.mark.slow
@pytest.mark.usefixtures("groups")
def test_the_kernel_throttles_the_victim_and_undo_returns_it_twice(busy: Victim, where: Where) -> None:
    fault = HostCpuThrottle(share=0.05)
    former = where(busy, "cpu")
    record = fault.undo_record(busy)
    assert not own_group(record).exists(), "the record comes before the act"
    fired = fault.inject(busy, None)
    assert fired.proven, fired.what
    assert where(busy, "cpu") == own_group(record)
    seen = fault.verify(busy, fired)
    assert seen.proven, seen.what
    assert seen.data["nr_throttled"] >= 1
    assert not fault.verify_undone(record).proven
    for _ in range(2):
        assert fault.undo(record).proven
        assert fault.verify_undone(record).proven
    assert where(busy, "cpu") == former
    assert not own_group(record).exists()


@pytest.mark.slow
@pytest.mark.usefixtures("groups")
def test_it_gets_about_the_share_that_it_was_given(busy: Victim) -> None:
    fault = HostCpuThrottle(share=0.1)
    record = fault.undo_record(busy)
    assert fault.inject(busy, None).proven
    try:
        before, start = signals.cpu_ticks(busy.pid), time.monotonic()
        time.sleep(1.0)  # what it uses in this time is what is measured
        used_s = ((signals.cpu_ticks(busy.pid) or 0) - (before or 0)) / 100
        assert used_s <= 0.2 * (time.monotonic() - start)
    finally:
        fault.undo(record)


@pytest.mark.usefixtures("groups")
def test_an_idle_victim_is_not_throttled_and_the_evidence_says_so(
    sleeper: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("injectors.host.cpu_throttle.SEEN_S", 0.1)
    fault = HostCpuThrottle()
    record = fault.undo_record(sleeper)
    fired = fault.inject(sleeper, None)
    assert fired.proven
    seen = fault.verify(sleeper, fired)
    fault.undo(record)
    assert not seen.proven
    assert seen.what == "the kernel never throttled the group: the process asked for less"


@pytest.mark.usefixtures("groups")
def test_undo_after_the_victim_died(busy: Victim) -> None:
    fault = HostCpuThrottle()
    record = fault.undo_record(busy)
    assert fault.inject(busy, None).proven
    signals.send(busy.pid, busy.start_ticks, 9)
    assert signals.wait_gone(busy.pid, busy.start_ticks, 5.0)
    assert fault.undo(record).proven
    assert fault.verify_undone(record).proven


@pytest.mark.usefixtures("groups")
def test_a_group_of_a_similar_name_stays_as_it_is(sleeper: Victim, where: Where) -> None:
    fault = HostCpuThrottle()
    record = fault.undo_record(sleeper)
    group = own_group(record)
    foreign = group.with_name(group.name + "0")
    foreign.mkdir()
    try:
        assert fault.inject(sleeper, None).proven
        assert fault.undo(record).proven
        assert foreign.is_dir()
    finally:
        foreign.rmdir()


@pytest.mark.usefixtures("groups")
def test_it_refuses_where_its_own_name_is_taken(sleeper: Victim) -> None:
    fault = HostCpuThrottle()
    group = own_group(fault.undo_record(sleeper))
    group.mkdir()
    try:
        with pytest.raises(FaultError, match="is there already"):
            fault.undo_record(sleeper)
        assert not fault.inject(sleeper, None).proven
    finally:
        group.rmdir()


@pytest.mark.usefixtures("groups")
def test_one_at_a_time(sleeper: Victim) -> None:
    fault = HostCpuThrottle()
    record = fault.undo_record(sleeper)
    assert fault.inject(sleeper, None).proven
    try:
        with pytest.raises(FaultError, match="already: one such fault at a time"):
            HostCpuThrottle(mechanism="cgroup").undo_record(replace(sleeper, fault="f2"))
    finally:
        assert fault.undo(record).proven


@pytest.mark.usefixtures("groups")
def test_a_victim_whose_pid_is_another_process_by_now_is_refused(stranger: Victim, where: Where) -> None:
    before = where(stranger, "cpu")
    with pytest.raises(FaultError, match="is gone"):
        HostCpuThrottle().undo_record(stranger)
    assert where(stranger, "cpu") == before


def test_undo_touches_no_group_that_is_not_ours(sleeper: Victim, tmp_path: Path) -> None:
    data = {"group": str(tmp_path / "system.slice"), "former": str(tmp_path)}
    (tmp_path / "system.slice").mkdir()
    record = UndoRecord("host.cgroup", sleeper.pid, sleeper.start_ticks, "f1", data)
    with pytest.raises(ValueError, match="is not a group of torch-chaos"):
        undo.carry_out(record.as_dict())
    assert (tmp_path / "system.slice").is_dir()


class TestDutyCycle:
    @pytest.mark.slow
    def test_it_is_stopped_again_and_again_and_undo_lets_go_twice(self, busy: Victim) -> None:
        fault = HostCpuThrottle(share=0.3, mechanism="duty")
        record = fault.undo_record(busy)
        fired = fault.inject(busy, None)
        assert fired.proven
        seen = fault.verify(busy, fired)
        assert seen.proven, seen.what
        for _ in range(2):
            assert fault.undo(record).proven
            assert fault.verify_undone(record).proven
        assert duty.find(record.data["tag"]) == []
        assert signals.state(busy.pid) == "R"

    @pytest.mark.slow
    def test_it_ends_by_itself_and_leaves_the_process_running(self, busy: Victim) -> None:
        fault = HostCpuThrottle(share=0.3, mechanism="duty", duration_s=0.2)
        record = fault.undo_record(busy)
        assert fault.inject(busy, None).proven
        for helper in duty.find(record.data["tag"]):
            assert signals.wait_gone(*helper, 10.0)
        assert signals.wait_state(busy.pid, "R", 5.0) == "R"
        assert fault.undo(record).proven

    @pytest.mark.slow
    def test_a_helper_that_was_killed_leaves_nothing_stopped_after_the_undo(self, busy: Victim) -> None:
        fault = HostCpuThrottle(share=0.1, mechanism="duty")
        record = fault.undo_record(busy)
        fired = fault.inject(busy, None)
        assert fault.verify(busy, fired).proven
        [helper] = duty.find(record.data["tag"])
        signals.send(*helper, 9)
        assert signals.wait_gone(*helper, 5.0)
        assert fault.undo(record).proven
        assert signals.state(busy.pid) == "R"

    @pytest.mark.slow
    def test_it_ends_with_its_line_to_the_tool(self, busy: Victim) -> None:
        fault = HostCpuThrottle(share=0.1, mechanism="duty")
        record = fault.undo_record(busy)
        fired = fault.inject(busy, None)
        assert fault.verify(busy, fired).proven
        [helper] = duty.find(record.data["tag"])
        # What the kernel does when the tool is killed.
        stdin = helpers._started[record.data["tag"]].stdin
        assert stdin is not None
        stdin.close()
        assert signals.wait_gone(*helper, 10.0)
        assert signals.wait_state(busy.pid, "R", 5.0) == "R"
        assert fault.undo(record).proven

    def test_an_undo_record_without_a_tag_is_refused(self, sleeper: Victim) -> None:
        with pytest.raises(ValueError, match="names no helper"):
            undo.carry_out(UndoRecord("host.duty", sleeper.pid, sleeper.start_ticks, "f1").as_dict())

    def test_a_process_that_only_mentions_the_tag_is_no_helper(self, sleeper: Victim) -> None:
        assert duty.find("60") == []


def test_settings_of_both_versions() -> None:
    assert settings(1, 20_000) == [("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "20000")]
    assert settings(2, 20_000) == [("cpu.max", "20000 100000")]


def test_a_mechanism_that_is_not_there_is_refused_by_name(
    sleeper: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup, "find", lambda controller: None)
    with pytest.raises(
        FaultError, match="no cgroup controller cpu\n  mend: or let it take `mechanism: duty`"
    ):
        HostCpuThrottle(mechanism="cgroup").undo_record(sleeper)
    assert HostCpuThrottle().undo_record(sleeper).kind == "host.duty"
