"""Run the engine against the stand-in job, as a command of its own, the way a user does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STANDIN = Path(__file__).parent / "standin"
COMMAND = [sys.executable, "-m", "chaos"]


@dataclass
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def report(self) -> dict[str, Any]:
        """The run's report.json."""
        found: dict[str, Any] = json.loads((self.folder / "report.json").read_text())
        return found

    def history(self, scenario: str) -> list[dict[str, Any]]:
        """A scenario's history."""
        lines = (self.folder / scenario / "history.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def temp(self) -> Path:
        """The temporary folder that the run had."""
        opening = json.loads((self.folder / "undo.jsonl").read_text().splitlines()[0])
        return Path(opening["temp"])


def environment(**more: str) -> dict[str, str]:
    """The environment of a command: this checkout on the path."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def suite(tmp_path: Path, scenarios: str, **target: object) -> Path:
    """A suite over the stand-in job; `scenarios` is YAML, `target` overrides its default target."""
    base = {
        "kind": "custom",
        "file": str(STANDIN / "target.py"),
        "world": 3,
        "steps": 20,
        "restart": "in_place",
    }
    text = json.dumps({**base, **target})
    path = tmp_path / "suite.yaml"
    path.write_text(
        f"suite: standin\nseed: 1\ndefaults:\n  target: {text}\n"
        f"  bounds: {{detect: 500ms, recover: 2s, run: 20s}}\nscenarios:\n{scenarios}"
    )
    return path


def chaos(
    *args: object, timeout_s: float = 60.0, cwd: Path | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """`torch-chaos ARGS`, to its end."""
    return subprocess.run(
        [*COMMAND, *map(str, args)], capture_output=True, text=True, timeout=timeout_s, check=False,
        env=environment(**env), cwd=cwd or ROOT,
    )  # fmt: skip


def run(path: Path | str, folder: Path, *args: object, timeout_s: float = 60.0) -> Done:
    """`torch-chaos run PATH --report-dir FOLDER`."""
    done = chaos("run", path, "--report-dir", folder, "--format", "plain", *args, timeout_s=timeout_s)
    return Done(done.returncode, done.stdout, done.stderr, folder)


KILL = """\
  - name: kill
    faults: [{fault: process.kill, where: {rank: 1}, when: {step: 6, phase: data}}]
"""
QUIET = "  - name: quiet\n"
