"""What a report must say of the machine and the software, and what a plan must know of them."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import chaos
from chaos.plan import Facts, Plan
from chaos.targets import paths
from chaos.targets.make import sources_of


def torch_version() -> str:
    """The installed torch's version without importing it, "" if there is none."""
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return ""


def for_plan(suite_file: Path, targets: list[dict[str, Any]]) -> Facts:
    """What a plan from this suite file must know.

    Raises:
        UserError: a target's script is not there.
    """
    folder = paths.recorded_folder(suite_file)
    return Facts(torch_version(), sources_of(targets, paths.folder_of(folder)), folder)


def environment(plan: Plan, command: str) -> dict[str, object]:
    """The environment of a run, for its report."""
    return {
        "torch_chaos": chaos.__version__,
        "commit": _commit(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "python": platform.python_version(),
        "torch": torch_version(),
        "packages": {name: _version(name) for name in ("numpy", "pydantic", "typer", "ruamel.yaml")},
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": _cpu(),
        "cpus": len(os.sched_getaffinity(0)),
        "load_before": round(os.getloadavg()[0], 2),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "executable": sys.executable,
        "plan_made_with_torch": plan.torch,
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()


def _commit() -> str | None:
    """The commit of a source checkout; None for an installed package."""
    root = Path(chaos.__file__).parent.parent
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
