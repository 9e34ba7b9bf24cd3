"""Launchers of one job on several nodes: whose end is the job's, and what counts as left behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.clusters.base import Plot
from chaos.clusters.local import LocalCluster
from chaos.errors import Refused
from chaos.targets import fleet
from chaos.targets.base import End, Launch, Post, Running, Setting, Target
from chaos.targets.fleet import Crew, Fleet


class Launcher(Running):
    """A launcher that ends when the test says so."""

    def __init__(self, post: Post, launch: Launch) -> None:
        self.post, self.launch = post, launch
        self.pid, self.argv = os.getpid(), [f"launcher{post.index}"]
        self.read, self.write = os.pipe()
        self.end: End | None = None
        self.stopped = False

    @property
    def end_fd(self) -> int:
        return self.read

    def finish(self, code: int | None, signal: int | None = None) -> None:
        self.end = End(code, signal)
        os.write(self.write, b"!")

    def poll(self) -> End | None:
        return self.end

    def stop(self) -> None:
        if not self.stopped:
            os.close(self.read)
            os.close(self.write)
        self.stopped = True


class Fake(Target):
    """Starts fake launchers."""

    def __init__(self) -> None:
        super().__init__(Setting({"kind": "fake"}, Path("/")))
        self.started: list[Launcher] = []

    def start(self, launch: Launch) -> Running:
        raise AssertionError

    def start_on(self, post: Post, launch: Launch) -> Running:
        os.write(launch.stdout, f"hello from {post.index}\n".encode())
        self.started.append(Launcher(post, launch))
        return self.started[-1]


@pytest.fixture
def target() -> Fake:
    return Fake()


@pytest.fixture
def job(target: Fake, tmp_path: Path) -> Iterator[Fleet]:
    cluster = LocalCluster(Plot("run", "job", 3))
    cluster.open()
    launch = Launch({}, tmp_path / "events", 1, tmp_path, -1, -1)
    crew = Crew(
        target,
        cluster,
        launch,
        2,
        4711,
        tmp_path / "token",
        lambda index: {"NODE": str(index)},
        lambda index: (tmp_path / f"{index}.out", tmp_path / f"{index}.err"),
    )
    made = Fleet(crew)
    yield made
    made.stop()


def test_each_node_gets_its_own_place_environment_and_log(job: Fleet, target: Fake, tmp_path: Path) -> None:
    posts = [(one.post.index, one.post.nodes, one.post.per_node, one.post.port) for one in target.started]
    assert posts == [(0, 3, 2, 4711), (1, 3, 2, 4711), (2, 3, 2, 4711)]
    assert [one.launch.env["NODE"] for one in target.started] == ["0", "1", "2"]
    assert [(tmp_path / f"{index}.out").read_text() for index in range(3)] == [
        f"hello from {index}\n" for index in range(3)
    ]
    assert job.argv == ["launcher0"]


def test_the_job_has_the_exit_code_of_node_0_once_all_have_ended(job: Fleet, target: Fake) -> None:
    target.started[2].finish(5)
    assert job.poll() is None
    target.started[0].finish(3)
    assert job.poll() is None
    target.started[1].finish(0)
    assert job.poll() == End(3)


def test_launchers_that_go_on_after_node_0_are_left_behind(
    job: Fleet, target: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "OTHERS_S", -1.0)
    target.started[1].finish(0)
    assert job.poll() is None
    target.started[0].finish(0)
    assert job.poll() == End(0)
    assert [process.pid for process in job.orphans()] == [os.getpid()]


def test_node_0_unplugged_is_no_end_while_others_run(
    job: Fleet, target: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "OTHERS_S", -1.0)
    target.started[0].finish(None, 9)
    assert job.poll() is None
    for one in target.started[1:]:
        one.finish(1)
    assert job.poll() == End(None, 9)


def test_an_end_wakes_whoever_waits_and_does_not_keep_waking(job: Fleet, target: Fake) -> None:
    import select

    def ready() -> bool:
        return bool(select.select([job.end_fd], [], [], 0)[0])

    assert not ready()
    target.started[1].finish(0)
    assert ready()
    job.poll()
    assert not ready()


def test_a_launcher_that_is_started_again_takes_the_place_of_the_old_one(
    job: Fleet, target: Fake, tmp_path: Path
) -> None:
    target.started[1].finish(None, 9)
    job.poll()
    again: Any = job.start(1)
    assert target.started[1].stopped
    assert job.launcher(1) is again
    assert (tmp_path / "1.out").read_text() == "hello from 1\n" * 2
    target.started[0].finish(0)
    target.started[2].finish(0)
    assert job.poll() is None
    again.finish(0)
    assert job.poll() == End(0)


def test_a_target_that_knows_no_nodes_says_so(job: Fleet, target: Fake) -> None:
    with pytest.raises(Refused, match="runs on one host"):
        Target.start_on(target, target.started[0].post, target.started[0].launch)
