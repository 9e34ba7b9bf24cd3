from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from injectors import signals
from injectors.fault import Victim
from injectors.host import cgroup


@pytest.fixture
def groups(require: Callable[[str], None]) -> None:
    """Groups of our own can be made here."""
    require("cgroup")


@pytest.fixture
def busy() -> Iterator[Victim]:
    """A process that never rests, as a victim."""
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"])
    ticks = signals.start_ticks(process.pid)
    assert ticks is not None
    yield Victim(pid=process.pid, start_ticks=ticks, rank=0, fault="f1", run="host-tests")
    process.kill()
    process.wait()


def folder_of(victim: Victim, controller: str) -> Path:
    hierarchy = cgroup.find(controller)
    assert hierarchy is not None
    folder = hierarchy.folder_of(victim.pid)
    assert folder is not None
    return folder


@pytest.fixture
def where() -> Callable[[Victim, str], Path]:
    """The folder of a victim's group."""
    return folder_of
