"""What every test relies on: capabilities, golden files, and that no test leaves a process behind."""

from __future__ import annotations

import ctypes
import fcntl
import functools
import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import psutil
import pytest

GOLDEN = Path(__file__).parent / "golden"
LEAK_GRACE_S = 2.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden/ from what the code says now"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is marked gpu where there is none."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not _has_gpu():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no accelerator on this machine"))


# -- beside each other -------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Under pytest-xdist a test marked `alone` waits until no other one runs, and the others wait for it.

    Around the whole protocol, so that what it waits is no part of a test's time limit.
    """
    name = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if name is None:
        return (yield)
    alone = item.get_closest_marker("alone") is not None
    with open(Path(tempfile.gettempdir(), f"torch-chaos-tests-{name}"), "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        return (yield)


# -- capabilities ------------------------------------------------------------------------------------------


def _has_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_available())


def _has_userns() -> bool:
    """An unprivileged user may make a user and a PID namespace."""
    if shutil.which("unshare") is None:
        return False
    command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "true"]
    return subprocess.run(command, capture_output=True, timeout=20, check=False).returncode == 0


def _has_pidfd_getfd() -> bool:
    """One process may duplicate another's descriptors (refused without ptrace rights, in some containers)."""
    child = subprocess.Popen(["sleep", "20"], stdin=subprocess.PIPE)
    try:
        pidfd = os.pidfd_open(child.pid)
        copied = ctypes.CDLL(None, use_errno=True).syscall(438, pidfd, 0, 0)
        os.close(pidfd)
        if copied >= 0:
            os.close(copied)
        return copied >= 0
    finally:
        child.kill()
        child.communicate()


def _has_torchrun() -> bool:
    return importlib.util.find_spec("torch.distributed.run") is not None


def _has_digits() -> bool:
    return importlib.util.find_spec("sklearn") is not None


def _has_fidelity() -> bool:
    """The linter of `ai-cluster-chaos-fidelity`; its modules are in a package called `catalog`."""
    return importlib.util.find_spec("catalog") is not None


def _has_cgroup() -> bool:
    """Groups of our own may be made, with processor and memory limits."""
    from injectors.host import cgroup

    return cgroup.probe("cpu") is None and cgroup.probe("memory") is None


def _works(*command: str) -> bool:
    """Whether a command is there and succeeds; nft and ip are in folders that an ordinary PATH leaves out."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    if shutil.which(command[0], path=path) is None:
        return False
    env = {**os.environ, "PATH": path}
    return subprocess.run(command, capture_output=True, env=env, timeout=30, check=False).returncode == 0


def _has_netns() -> bool:
    """A network namespace may be made in a user namespace."""
    return _works("unshare", "--user", "--map-root-user", "--net", "true")


def _has_nft() -> bool:
    """nft rules may be set inside such a namespace."""
    return _works("unshare", "--user", "--map-root-user", "--net", "nft", "add", "table", "inet", "probe")


def _has_docker() -> bool:
    """The docker SDK is installed and a daemon answers."""
    return importlib.util.find_spec("docker") is not None and _works("docker", "info")


def _has_fuse() -> bool:
    """A file system of our own may be mounted over a folder."""
    from injectors.storage import mounts

    return mounts.probe() is None


def _has_chromium() -> bool:
    """A Chromium is installed, and so is what drives it and searches a page for what keeps people out."""
    tools = ("playwright", "axe_playwright_python")
    return shutil.which("chromium") is not None and all(importlib.util.find_spec(tool) for tool in tools)


CAPABILITIES: dict[str, Callable[[], bool]] = {
    "userns": functools.cache(_has_userns),
    "pidfd_getfd": functools.cache(_has_pidfd_getfd),
    "torchrun": functools.cache(_has_torchrun),
    "digits": functools.cache(_has_digits),
    "fuse": functools.cache(_has_fuse),
    "cgroup": functools.cache(_has_cgroup),
    "netns": functools.cache(_has_netns),
    "nft": functools.cache(_has_nft),
    "docker": functools.cache(_has_docker),
    "chromium": functools.cache(_has_chromium),
    "gpu": functools.cache(_has_gpu),
    "fidelity": functools.cache(_has_fidelity),
}


@pytest.fixture(scope="session")
def require() -> Callable[[str], None]:
    """`require("userns")`: skip where it is missing, fail where TORCH_CHAOS_TESTS_REQUIRE names it."""
    required = {name for name in os.environ.get("TORCH_CHAOS_TESTS_REQUIRE", "").split(",") if name}
    if unknown := required - CAPABILITIES.keys():
        raise pytest.UsageError(
            f"TORCH_CHAOS_TESTS_REQUIRE names {sorted(unknown)}; known: {sorted(CAPABILITIES)}"
        )

    def check(name: str) -> None:
        if CAPABILITIES[name]():
            return
        if name in required:
            pytest.fail(
                f"{name} is missing, and TORCH_CHAOS_TESTS_REQUIRE says that this machine must have it"
            )
        pytest.skip(f"{name} is missing on this machine")

    return check


# -- golden files ------------------------------------------------------------------------------------------


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("name.txt", text)`: text equals the committed file; `pytest --update-golden` rewrites it."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is missing\n  mend: pytest --update-golden, then read what it wrote"
        assert text == path.read_text(encoding="utf-8")

    return check


# -- leftovers ---------------------------------------------------------------------------------------------


def _descendants() -> dict[int, psutil.Process]:
    return {child.pid: child for child in psutil.Process().children(recursive=True)}


def _lives(process: psutil.Process) -> bool:
    try:
        tracker = "resource_tracker" in " ".join(
            process.cmdline()
        )  # multiprocessing's own: one a session, kept
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE and not tracker
    except psutil.Error:
        return False


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    """Fail a test that leaves a child process running (wider fixtures may keep theirs)."""
    before = _descendants()
    yield
    deadline = time.monotonic() + LEAK_GRACE_S
    while left := [p for pid, p in _descendants().items() if pid not in before and _lives(p)]:
        if time.monotonic() > deadline:
            described = [f"{p.pid}: {' '.join(p.cmdline())[:120]}" for p in left if _lives(p)]
            for process in left:
                process.kill()
            pytest.fail("processes left behind:\n  " + "\n  ".join(described))
        time.sleep(0.02)
