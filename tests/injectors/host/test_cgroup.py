"""The pure parts against a fake tree of control groups; the real ones are in the tests of the faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from injectors.host import cgroup

V1 = """\
21 20 0:18 / {mount}/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
22 20 0:19 / {mount}/memory rw,relatime - cgroup cgroup rw,memory
23 20 0:20 / {mount}/unified rw,relatime - cgroup2 none rw
"""
V2 = "23 20 0:20 {root} {mount}\\040two rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


@pytest.fixture
def fake_proc(tmp_path: Path) -> Path:
    """A stand-in for /proc, with a process 7."""
    for name in ("self", "7"):
        (tmp_path / "fake-proc" / name).mkdir(parents=True)
    return tmp_path / "fake-proc"


@pytest.fixture
def fake_v1(tmp_path: Path, fake_proc: Path) -> Path:
    """A stand-in for a machine of version 1; process 7 is in job/7."""
    mount = tmp_path / "fake-cgroup-v1"
    (mount / "cpu" / "job" / "7").mkdir(parents=True)
    (fake_proc / "self" / "mountinfo").write_text(V1.format(mount=mount))
    (fake_proc / "7" / "cgroup").write_text("2:memory:/other\n1:cpu,cpuacct:/job/7\n0::/\n")
    return mount


@pytest.fixture
def fake_v2(tmp_path: Path, fake_proc: Path) -> Path:
    """A stand-in for a machine of version 2, with a blank in the mount's name; process 7 is in job/7."""
    mount = tmp_path / "fake-cgroup two"
    (mount / "job" / "7").mkdir(parents=True)
    (mount / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    text = V2.format(root="/", mount=tmp_path / "fake-cgroup")
    (fake_proc / "self" / "mountinfo").write_text(text)
    (fake_proc / "7" / "cgroup").write_text("0::/job/7\n")
    return mount


class TestVersion1:
    def test_it_is_found_by_controller(self, fake_v1: Path, fake_proc: Path) -> None:
        found = cgroup.find("cpu", fake_proc)
        assert found == cgroup.Hierarchy(1, "cpu", fake_v1 / "cpu")

    def test_a_group_of_ours_goes_inside_the_victims(self, fake_v1: Path, fake_proc: Path) -> None:
        found = cgroup.find("cpu", fake_proc)
        assert found is not None
        folder = found.folder_of(7, fake_proc)
        assert folder == fake_v1 / "cpu" / "job" / "7"
        assert found.parent_for(folder) == folder
        assert found.problem(7, fake_proc) is None

    def test_a_controller_that_is_nowhere(self, fake_v1: Path, fake_proc: Path) -> None:
        assert cgroup.find("io", fake_proc) is None


class TestVersion2:
    def test_it_is_found_with_the_blank_in_its_name(self, fake_v2: Path, fake_proc: Path) -> None:
        assert cgroup.find("memory", fake_proc) == cgroup.Hierarchy(2, "memory", fake_v2)

    def test_a_group_of_ours_goes_beside_the_victims(self, fake_v2: Path, fake_proc: Path) -> None:
        found = cgroup.Hierarchy(2, "memory", fake_v2)
        assert found.parent_for(fake_v2 / "job" / "7") == fake_v2 / "job"
        assert found.parent_for(fake_v2) == fake_v2

    def test_a_controller_that_is_not_handed_on_is_said_with_its_remedy(
        self, fake_v2: Path, fake_proc: Path
    ) -> None:
        found = cgroup.Hierarchy(2, "cpu", fake_v2)
        problem = found.problem(7, fake_proc) or ""
        assert f"echo +cpu > {fake_v2 / 'job'}/cgroup.subtree_control" in problem
        (fake_v2 / "job" / "cgroup.subtree_control").write_text("cpu memory\n")
        assert found.problem(7, fake_proc) is None

    def test_it_is_not_taken_for_a_controller_that_it_lacks(self, fake_v2: Path, fake_proc: Path) -> None:
        assert cgroup.find("blkio", fake_proc) is None


def test_a_mount_that_shows_a_part_of_the_tree_only(tmp_path: Path, fake_proc: Path) -> None:
    found = cgroup.Hierarchy(2, "cpu", tmp_path, "/docker/1")
    (fake_proc / "7" / "cgroup").write_text("0::/docker/1/inner\n")
    assert found.folder_of(7, fake_proc) == tmp_path / "inner"
    for outside in ("/docker/12", "/docker/1/../2", "/"):
        (fake_proc / "7" / "cgroup").write_text(f"0::{outside}\n")
        assert found.folder_of(7, fake_proc) is None
        assert "can not be seen" in (found.problem(7, fake_proc) or "")


def test_a_process_that_is_gone(fake_v1: Path, fake_proc: Path) -> None:
    found = cgroup.Hierarchy(1, "cpu", fake_v1 / "cpu")
    assert found.folder_of(8, fake_proc) is None


def test_a_name_holds_run_fault_and_pid_and_nothing_that_is_a_path() -> None:
    assert cgroup.name_of("r1", "f1", 7) == "torch-chaos-r1-f1-7"
    assert cgroup.name_of("../a b", "f/1", 7) == "torch-chaos-.._a_b-f_1-7"


def test_counters_of_a_file_that_is_gone_are_none(tmp_path: Path) -> None:
    (tmp_path / "memory.events").write_text("low 0\noom_kill 3\nodd\n")
    assert cgroup.counters(tmp_path / "memory.events") == {"low": 0, "oom_kill": 3}
    assert cgroup.counters(tmp_path / "none") == {}


def test_a_setting_that_the_kernel_refuses_leaves_no_group(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        cgroup.create(tmp_path / "torch-chaos-x", [("no/such/setting", "1")])
    assert not (tmp_path / "torch-chaos-x").exists()
