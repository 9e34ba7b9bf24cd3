"""Whoever owns the nodes' user namespace may break their network; nothing of it needs root."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]
NOBODY = 65534
WANTED: list[tuple[str, dict[str, Any]]] = [
    ("net.partition", {}),
    ("net.partition", {"mechanism": "packet relay"}),
    ("net.drop_one_way", {}),
    ("net.delay", {}),
    ("net.loss", {"percent": 20.0}),
    ("net.bandwidth", {}),
    ("net.link_down", {}),
]


def as_nobody(*words: str) -> subprocess.CompletedProcess[str]:
    ids = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    env = {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.defpath}
    return subprocess.run(
        ["setpriv", *ids, *words], capture_output=True, text=True, env=env, cwd="/", timeout=120, check=False
    )


def python_for_nobody() -> str | None:
    """An interpreter that another user may start, and that finds this project."""
    check = "import sys, injectors.catalogue; assert sys.version_info >= (3, 11)"
    found = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    return found if found and as_nobody(found, "-c", check).returncode == 0 else None


@pytest.mark.skipif(os.geteuid() != 0, reason="every test of this folder runs as an ordinary user already")
def test_every_fault_works_without_root(require: Callable[[str], None]) -> None:
    require("netns")
    require("nft")
    python = python_for_nobody()
    if python is None:
        pytest.skip("no Python that another user may start")
    done = as_nobody(python, str(Path(__file__).with_name("as_user.py")), json.dumps(WANTED))
    assert done.returncode == 0, done.stderr
    seen = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["fault"] for line in seen] == [name for name, _ in WANTED]
    assert {line["uid"] for line in seen} == {NOBODY}
    assert all(line["proven"] == [True] * 5 for line in seen), seen
