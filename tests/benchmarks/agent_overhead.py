"""What the agent costs an unchanged script under torchrun: jobs with it and without it, one after the other.

    python tests/benchmarks/agent_overhead.py

The agent finds steps, phases and collectives, as it does in a run; no fault is armed, state digests are off.
An agent can't be taken out of a running process, so the blocks are whole jobs: without, with, without ...
Wall time is rank 0's, CPU time the sum over all ranks; imports and the first steps are not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import record

sys.path.insert(0, str(record.ROOT))
from injectors import boot

TARGET = Path(__file__).parent / "plain_target.py"


def job(args: argparse.Namespace, with_agent: bool) -> tuple[float, float]:
    """Run one job. Returns the wall and CPU milliseconds of a step."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        if with_agent:
            config = {
                "protocol": boot.PROTOCOL,
                "run": "benchmark",
                # Nobody listens: without a fault there is nothing to ask.
                "socket": str(folder / "nobody"),
                "events": str(folder / "events.jsonl"),
                "observe": True,
                "digest": False,
                "step_source": "agent",
                "step_rule": {"rule": "optimizer"},
                "faults": [],
            }
            boot.write_config(folder / "agent.json", config)
            env = boot.environment(folder / "agent.json", env)
        launch = [
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            str(args.world),
            str(TARGET),
        ]
        flags = ["--steps", str(args.steps), "--width", str(args.width), "--out", str(folder)]
        subprocess.run(
            [sys.executable, *launch, *flags], env=env, check=True, capture_output=True, timeout=180
        )
        ranks = [json.loads(p.read_text(encoding="utf-8")) for p in sorted(folder.glob("rank*.json"))]
        if with_agent:
            lines = (folder / "events.jsonl").read_text(encoding="utf-8").count('"step.commit"')
            assert lines == args.steps * args.world, f"the agent saw {lines} steps"
        return ranks[0][0], sum(cpu for _, cpu in ranks)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--world", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=8, help="of jobs")
    parser.add_argument("--steps", type=int, default=220)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap")
    args = parser.parse_args()
    machine = record.environment()
    wall: list[tuple[float, float]] = []
    cpu: list[tuple[float, float]] = []
    for _ in range(args.pairs):
        without = job(args, with_agent=False)
        with_ = job(args, with_agent=True)
        wall.append((with_[0], without[0]))
        cpu.append((with_[1], without[1]))
    result = {
        "seed": args.seed,
        "environment": machine,
        "model": f"a transformer of width {args.width}, two layers, DDP with its defaults",
        "world": args.world,
        "pairs": args.pairs,
        "steps": args.steps,
        "wall_ms": wall,
        "cpu_ms": cpu,
        "wall_ratio": record.ratio_interval(wall, args.seed),
        "cpu_ratio": record.ratio_interval(cpu, args.seed),
    }
    record.write("agent_overhead", result, markdown)


def markdown(r: dict[str, Any]) -> str:
    jobs = f"{r['pairs']} pairs of jobs of {r['steps']} steps"
    return "\n".join(
        [
            f"Model: {r['model']}; {r['world']} ranks under torchrun, {jobs}.",
            "",
            "| per step, ms: mean (median) | without | with the agent | difference, 95 % interval |",
            "|---|---|---|---|",
            record.comparison("wall time, rank 0", r["wall_ms"], r["wall_ratio"]),
            record.comparison("CPU time, all ranks", r["cpu_ms"], r["cpu_ratio"]),
        ]
    )


if __name__ == "__main__":
    main()
