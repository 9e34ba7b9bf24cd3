"""A fresh project whose only plugin is ours, loaded through its entry point as an installed package's is."""

from __future__ import annotations

import os
import re
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ENTRY = "[pytest11]\ntorch_chaos = chaos.testing.plugin\n"
# Real runs: a loaded machine takes its time.
LONG_S = 150.0


def documented(name: str) -> str:
    """A file that docs/pytest.md shows, as it stands there: what readers copy is what is run."""
    page = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")
    found = re.search(rf'^```python title="{re.escape(name)}"\n(.*?)^```', page, flags=re.M | re.S)
    assert found is not None, f"docs/pytest.md shows no {name}"
    return found[1]


class Project:
    """A folder with tests, and a way to run pytest there."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pytester, self.path = pytester, pytester.path
        for name in [name for name in os.environ if name.startswith(("TORCH_CHAOS_", "PYTEST_"))]:
            monkeypatch.delenv(name)
        path = [str(ROOT)]
        if not metadata.entry_points(group="pytest11", name="torch_chaos"):
            path.append(str(self._entry_point()))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
        monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    def _entry_point(self) -> Path:
        """What installing the package would put into site-packages."""
        info = self.path / "installed" / "torch_chaos_entry-1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-chaos-entry\nVersion: 1\n")
        (info / "entry_points.txt").write_text(ENTRY)
        return info.parent

    def write(self, name: str, text: str) -> Path:
        """A file of the project."""
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_text(text, encoding="utf-8")
        return self.path / name

    def pytest(self, *args: object, timeout_s: float = LONG_S) -> pytest.RunResult:
        """Run pytest, warnings of pytest's own being errors."""
        return self.pytester.runpytest_subprocess(
            "-W", "error::pytest.PytestWarning", "--strict-markers", *map(str, args), timeout=timeout_s
        )


STANDIN = ROOT / "tests" / "chaos" / "standin" / "target.py"


def standin_suite(scenarios: str) -> str:
    """A suite over the stand-in job, which needs no torch."""
    return (
        "suite: standin\nseed: 1\ndefaults:\n"
        f"  target: {{kind: custom, file: {STANDIN}, world: 3, steps: 20, restart: in_place}}\n"
        f"  bounds: {{detect: 500ms, recover: 2s, run: 20s}}\nscenarios:\n{scenarios}"
    )


KILL = "  - {name: kill, faults: [{fault: process.kill, where: {rank: 1}, when: {step: 6, phase: data}}]}\n"
TOO_LATE = "  - {name: too_late, faults: [{fault: process.kill, where: {rank: 1}, when: {step: 99}}]}\n"
