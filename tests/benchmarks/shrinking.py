"""Ten failures of four to eight faults, each shrunk by real runs to the one or two faults that matter.

    python tests/benchmarks/shrinking.py [--only NAME ...]

The job is `suites/workloads/seeded_bugs.py`, whose bugs show in a recovery, among faults that cause none.
Which rank, step and phase each fault strikes is drawn from the seed, and so is its place among the others.
Exits with 1 if a failure keeps more faults than matter, or needs longer than the budget.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import record
import yaml

COMMAND = [sys.executable, "-m", "chaos"]
BUDGET_S = 300
KILL = "process.kill"
QUIET: dict[str, dict[str, Any]] = {
    "process.gil_lock": {"for": "150ms"},
    "collective.delay": {"for": "100ms"},
}


@dataclass(frozen=True)
class Seeded:
    """A failure: a bug of the workload, or a bound that is too tight, and what shows it.

    Attributes:
        bug: as `--bug` takes it.
        invariant: the one that it violates.
        faults: how many it is hidden among, at least four.
        matter: how many of them it needs, at most two.
        target, bounds: what it needs of the scenario besides.
    """

    bug: str
    invariant: str
    faults: int
    matter: int = 1
    target: dict[str, Any] = field(default_factory=dict)
    bounds: dict[str, str] = field(default_factory=dict)


FAILURES = {
    "forgotten scheduler": Seeded("forgotten_scheduler", "replicas_agree", 8),
    "forgotten average": Seeded("forgotten_average", "state_equals_twin", 7),
    "decay outside the step": Seeded("decay_outside_step", "replicas_agree", 5),
    "own iterator": Seeded("own_iterator", "every_sample_exactly_once", 6),
    "own generator": Seeded("own_generator", "state_equals_twin", 8),
    "process in the seed": Seeded("process_in_seed", "rng_continues_per_logical_rank", 4),
    "slow rebuild": Seeded("slow_rebuild", "recovered_within_bounds", 6, bounds={"recover": "700ms"}),
    "stuck after a recovery": Seeded("stuck_after_recovery", "progress_after_heal", 5, bounds={"run": "12s"}),
    "bound too tight": Seeded("none", "recovered_within_bounds", 8, bounds={"recover": "20ms"}),
    "one restart too few": Seeded("none", "progress_after_heal", 6, matter=2, target={"max_restarts": 1}),
}


def suite(name: str, wanted: Seeded, seed: int) -> str:
    """A suite of the one scenario."""
    rng = random.Random(f"shrinking {seed} {name}")
    steps = sorted(rng.sample(range(4, 36), wanted.faults))
    kinds = [KILL, KILL, rng.choice([*QUIET])]
    kinds += [rng.choice([KILL, *QUIET]) for _ in range(wanted.faults - len(kinds))]
    rng.shuffle(kinds)
    faults = [
        {
            "fault": kind,
            "where": {"rank": rng.randrange(4)},
            "when": {"step": step, "phase": rng.choice(["forward", "backward"])},
            **QUIET.get(kind, {}),
        }
        for kind, step in zip(kinds, steps, strict=True)
    ]
    recoveries = sum(fault["fault"] == KILL for fault in faults)
    scenario = {"name": "seeded", "faults": faults, "recoveries": recoveries}
    target = {
        "kind": "recovery",
        "workload": "seeded_bugs",
        "world": 4,
        "spares": 1,
        "steps": 40,
        "args": ["--steps", "40", "--bug", wanted.bug],
        **wanted.target,
    }
    bounds = {"detect": "2s", "recover": "5s", "run": "60s", **wanted.bounds}
    whole = {
        "suite": "shrinking",
        "seed": seed,
        "defaults": {"target": target, "bounds": bounds},
        "scenarios": [scenario],
    }
    return yaml.safe_dump(whole, sort_keys=False)


def hunt(name: str, wanted: Seeded, seed: int, folder: Path) -> dict[str, Any]:
    """Shrink one failure; returns what became of it."""
    path = folder / "suite.yaml"
    path.write_text(suite(name, wanted, seed), encoding="utf-8")
    made = subprocess.run(
        [*COMMAND, "plan", str(path), "--format", "json"],
        cwd=record.ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    plan = folder / "plan.json"
    plan.write_text(made.stdout, encoding="utf-8")
    words = ["shrink", str(plan), "--invariant", wanted.invariant, "--budget", f"{BUDGET_S}s"]
    began = time.monotonic()
    done = subprocess.run(
        [*COMMAND, *words, "--out", str(folder / "small")],
        cwd=record.ROOT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    took_s = time.monotonic() - began
    print(f"-- {name}: {took_s:.0f} s\n{done.stdout}{done.stderr}", flush=True)
    tried = folder / "small" / "shrink.jsonl"
    small = folder / "small" / "plan.json"
    found: dict[str, Any] = {"name": name, "invariant": wanted.invariant, "before": wanted.faults}
    found |= {"matter": wanted.matter, "seconds": round(took_s, 1), "code": done.returncode}
    if small.is_file():
        (scenario,) = json.loads(small.read_text(encoding="utf-8"))["scenarios"]
        found["after"] = len(scenario["faults"])
        found["world"] = scenario["target"]["world"]
        found["steps"] = scenario["target"]["steps"]
    found["runs"] = len(tried.read_text(encoding="utf-8").splitlines()) if tried.is_file() else 0
    found["again"] = "run once more, it fails again" in done.stdout
    return found


def kept(found: dict[str, Any]) -> bool:
    """Whether it came down to what matters, in time, and fails when it is run once more."""
    small = found.get("after", found["before"]) <= found["matter"]
    return bool(small and found["again"] and found["code"] == 0 and found["seconds"] <= BUDGET_S)


def markdown(result: dict[str, Any]) -> str:
    rows = [
        "| failure | invariant | faults | ranks | steps | runs | seconds | fails again |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in result["failures"]:
        rows.append(
            f"| {one['name']} | {one['invariant']} | {one['before']} to {one.get('after', '-')} "
            f"| 4 to {one.get('world', '-')} | 40 to {one.get('steps', '-')} | {one['runs']} "
            f"| {one['seconds']:.0f} | {'yes' if one['again'] else 'no'} |"
        )
    seconds = [one["seconds"] for one in result["failures"]]
    done = sum(map(kept, result["failures"]))
    tail = f"\n{done} of {len(seconds)} came down to the one or two faults that matter"
    return (
        "\n".join(rows)
        + f"\n{tail} within {BUDGET_S} s each; median {median(seconds):.0f} s, worst {max(seconds):.0f} s.\n"
        "Each run is a whole job of real processes; the seconds count all of them, the twins' too.\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", choices=FAILURES, default=list(FAILURES))
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    machine = record.environment()
    failures = []
    for name in args.only:
        with tempfile.TemporaryDirectory(prefix="shrinking-") as folder:
            failures.append(hunt(name, FAILURES[name], args.seed, Path(folder)))
    record.write("shrinking", {"seed": args.seed, "environment": machine, "failures": failures}, markdown)
    return 0 if all(map(kept, failures)) else 1


if __name__ == "__main__":
    sys.exit(main())
