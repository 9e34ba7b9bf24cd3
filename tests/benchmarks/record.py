"""What every benchmark here shares: interval estimates, and a record that says how to make it again."""

from __future__ import annotations

import json
import os
import platform
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "reports" / "benchmarks"


def ratio_interval(
    pairs: Sequence[tuple[float, float]], seed: int, resamples: int = 4000
) -> tuple[float, float, float]:
    """The ratio of means of (with, without) pairs and its 95 % interval, by a bootstrap over whole pairs.

    A pair is two neighbouring blocks, so that slow drift of the machine hits both alike.

    Returns:
        ratio, lower end, upper end.
    """

    def ratio(sample: Sequence[tuple[float, float]]) -> float:
        return mean(a for a, _ in sample) / mean(b for _, b in sample)

    rng = random.Random(seed)
    drawn = sorted(ratio(rng.choices(pairs, k=len(pairs))) for _ in range(resamples))
    return ratio(pairs), drawn[int(0.025 * resamples)], drawn[int(0.975 * resamples)]


def comparison(label: str, pairs: Sequence[tuple[float, float]], ratio: tuple[float, float, float]) -> str:
    """One table row: without, with, difference. Milliseconds, mean and median."""
    cells = [f"{mean(side):.2f} ({median(side):.2f})" for side in zip(*pairs, strict=True)]
    return f"| {label} | {cells[1]} | {cells[0]} | {percent(*ratio)} |"


def percent(ratio: float, low: float, high: float) -> str:
    """`+1.2 % (0.8 to 1.7)`."""
    return f"{(ratio - 1) * 100:+.1f} % ({(low - 1) * 100:+.1f} to {(high - 1) * 100:+.1f})"


def environment() -> dict[str, Any]:
    """What a reader must know of the machine to compare figures."""
    import torch

    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "load_before": os.getloadavg()[0],
        "kernel": platform.release(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain", "--untracked-files=no")),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def write(name: str, record: dict[str, Any], to_markdown: Callable[[dict[str, Any]], str]) -> Path:
    """Write reports/benchmarks/NAME.json and NAME.md, and print the latter."""
    command = f"python tests/benchmarks/{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}".strip()
    whole = {"benchmark": name, "command": command, **record}
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    machine = record["environment"]
    changed = " with uncommitted changes" if machine["uncommitted_changes"] else ""
    head = (
        f"# {name}\n\nMade by `{command}`, seed {record['seed']}, commit {machine['commit'][:12]}{changed},"
        f" on {machine['cores']} cores of {machine['cpu']}, torch {machine['torch']}, "
        f"load {machine['load_before']:.1f} before the start.\n\n"
    )
    path = FOLDER / f"{name}.md"
    path.write_text(head + to_markdown(whole).rstrip() + "\n", encoding="utf-8")
    print(path.read_text(encoding="utf-8"))
    return path
