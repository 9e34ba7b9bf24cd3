"""Start things on nodes and read what they say; run a part of the tests as an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chaos.clusters import processes
from chaos.clusters.base import Cluster, Output
from chaos.clusters.running import End, Running

ROOT = Path(__file__).parents[3]
NOBODY = 65534
END_S = 20.0


def start(cluster: Cluster, index: int, log: Path, argv: Sequence[str], **env: str) -> Running:
    """A command on a node, its output in a file."""
    with log.open("ab") as file:
        output = Output(file.fileno(), file.fileno())
        full = {**os.environ, processes.MARKER: cluster.plot.run, processes.NODE: str(index), **env}
        return cluster.start(index, argv, full, ROOT, output)


def wait_end(running: Running) -> End:
    limit = time.monotonic() + END_S
    while (end := running.poll()) is None:
        assert time.monotonic() < limit, "it did not end"
        time.sleep(0.005)
    return end


def said(cluster: Cluster, index: int, log: Path, code: str, *words: str) -> Any:
    """What a Python program on a node prints, as JSON."""
    log.unlink(missing_ok=True)
    running = start(cluster, index, log, [sys.executable, "-I", "-S", "-c", code, *words])
    try:
        assert wait_end(running).well, log.read_text()
    finally:
        running.stop()
    return json.loads(log.read_text())


# What a new connection finds: 0 open, 111 refused (so the other end is there), anything else silence.
KNOCK = """
import json, socket, sys
line = socket.socket()
line.settimeout(5)
print(json.dumps(line.connect_ex((sys.argv[1], 9))))
"""
NETWORK = """
import json, os
print(json.dumps({"net": os.stat("/proc/self/ns/net").st_ino, "uid": os.getuid()}))
"""


def ordinary(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program as an ordinary user: as this one, or as nobody if this one is root."""
    if os.getuid() != 0:
        return _run([sys.executable, "-c", code, *words], {})
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    # A virtual environment may lie in root's own folder; the system's Python can read its packages.
    for python in (sys.executable, shutil.which("python3", path="/usr/bin") or ""):
        if python and _run([*become, "env", python, "-c", "import pydantic"], {}).returncode == 0:
            return _run([*become, "env", python, "-c", code, *words], {})
    raise AssertionError("an ordinary user has no Python here that could run this")


def _run(command: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), *site.getsitepackages()])
    full = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/", **env}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=full, cwd="/"
    )
