"""What starting the command costs, beside what starting Python alone costs, in turns.

    python tests/benchmarks/cold_start.py

Every start is a new process with its bytecode cached, as `pip install` leaves it; the first round makes that
cache and is not counted. CPU time is the kernel's count for the process: on a busy machine it says more than
the clock. Exits with 1 if a median is above its limit.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from statistics import median, quantiles
from typing import Any

import record

ALONE = "python -c pass"
COMMANDS = {
    ALONE: ["-c", "pass"],
    "torch-chaos --help": ["-m", "chaos", "--help"],
    "torch-chaos validate suites/smoke.yaml": ["-m", "chaos", "validate", "suites/smoke.yaml"],
}
LIMITS_S = {"torch-chaos --help": 0.3, "torch-chaos validate suites/smoke.yaml": 0.5}


def start(words: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Run one Python to its end. Returns milliseconds of wall time and of CPU time."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, *words], cwd=record.ROOT, env=env, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{words} ended with {process.returncode}"
    return wall_s * 1e3, (used.ru_utime + used.ru_stime) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap")
    args = parser.parse_args()
    machine = record.environment()
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        for number in range(args.rounds + 1):
            for name, words in COMMANDS.items():
                times = start(words, env)
                if number:
                    taken[name].append(times)
    result = {
        "seed": args.seed,
        "environment": machine,
        "rounds": args.rounds,
        "limits_s": LIMITS_S,
        "wall_and_cpu_ms": taken,
        "cpu_ratio": {
            name: record.ratio_interval(
                [(own[1], alone[1]) for own, alone in zip(times, taken[ALONE], strict=True)], args.seed
            )
            for name, times in taken.items()
        },
    }
    record.write("cold_start", result, markdown)
    slow = [name for name, limit_s in LIMITS_S.items() if wall_ms(taken[name])[1] > limit_s * 1e3]
    if slow:
        sys.exit(f"above the limit: {', '.join(slow)}")


def wall_ms(times: list[tuple[float, float]]) -> list[float]:
    """The quartiles of wall time, ms."""
    return quantiles((wall for wall, _ in times), n=4)


def markdown(r: dict[str, Any]) -> str:
    """The table of a record."""
    lines = [
        f"{r['rounds']} rounds; each starts every command once.",
        "",
        "| command | wall ms: median (quartiles) | limit | CPU ms: median | CPU, times Python alone |",
        "|---|---|---|---|---|",
    ]
    for name, times in r["wall_and_cpu_ms"].items():
        low, middle, high = wall_ms(times)
        ratio, from_, to = r["cpu_ratio"][name]
        limit = f"{r['limits_s'][name] * 1e3:.0f}" if name in r["limits_s"] else ""
        cpu_ms = median(cpu for _, cpu in times)
        lines.append(
            f"| `{name}` | {middle:.0f} ({low:.0f} to {high:.0f}) | {limit} | {cpu_ms:.0f}"
            f" | {ratio:.1f} (95 %: {from_:.1f} to {to:.1f}) |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
