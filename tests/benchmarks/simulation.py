"""What a simulated schedule costs, by number of ranks, and where the time goes.

python -m tests.benchmarks.simulation            # writes reports/simulation/cost.md
"""

from __future__ import annotations

import cProfile
import io
import math
import pstats
import random
import time
from pathlib import Path

from chaos.simulation.generate import make_plan
from chaos.simulation.generate_nodes import make_fleet_plan
from chaos.simulation.run import run_plan

SIZES = (3, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
FLEETS = ((2, 4), (3, 4), (3, 6), (5, 8))
"""Nodes and ranks."""
OUT = Path("reports/simulation/cost.md")
AT_LEAST_S = 2.0
REQUIRED_EVENTS = 150


def measure(world: int, nodes: int = 1) -> tuple[float, float, int]:
    """Events of a schedule, seconds of one core for it, and the fewest events of one that finished."""
    schedules = events = 0
    fewest = 10**9
    began = time.process_time()
    while time.process_time() - began < AT_LEAST_S or schedules < 2:
        rng = random.Random(f"cost {world} {schedules}")
        if nodes == 1:
            plan = make_plan(rng, schedules, world=world, faults=3, hostile=False)
        else:
            plan = make_fleet_plan(rng, schedules, nodes=nodes, world=world, faults=3)
        outcome = run_plan(plan)
        assert outcome.violation is None, outcome.violation
        events += outcome.events
        if outcome.reason == "finished":
            fewest = min(fewest, outcome.events)
        schedules += 1
    return events / schedules, (time.process_time() - began) / schedules, fewest


def profile() -> str:
    """The functions that take most of the time of schedules with 4 ranks and 3 faults."""
    profiler = cProfile.Profile()
    profiler.enable()
    for number in range(150):
        run_plan(make_plan(random.Random(f"cost 4 {number}"), number, world=4, faults=3, hostile=False))
    profiler.disable()
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("tottime").print_stats(14)
    lines = [line for line in text.getvalue().splitlines() if "/" in line or "ncalls" in line or "{" in line]
    return "\n".join("    " + line.replace(str(Path.cwd()) + "/", "") for line in lines)


def main() -> None:
    """Measure, print and write the table."""
    rows = []
    for world in SIZES:
        events, each_s, fewest = measure(world)
        cost = each_s / (world * math.log2(world))
        bar = "#" * max(1, round(10 * math.log10(each_s * 1e4)))
        rows.append(
            f"| {world} | {1 / each_s:.3g} | {events:.0f} | {fewest} | {events / each_s:.3g}"
            f" | {each_s * 1e3:.3g} | {cost * 1e6:.3g} | `{bar}` |"
        )
        print(rows[-1], flush=True)
    fleets = []
    for nodes, world in FLEETS:
        events, each_s, _ = measure(world, nodes)
        fleets.append(f"| {nodes} | {world} | {1 / each_s:.3g} | {events:.0f} | {events / each_s:.3g} |")
        print(fleets[-1], flush=True)
    text = f"""# What a simulated schedule costs

    python -m tests.benchmarks.simulation

One core (process time), three faults a schedule, all invariants on. `n log n`: microseconds divided by
n log2 n; where it does not grow, the cost is no worse than n log n. The bar is logarithmic.

| ranks | schedules/s | events | fewest | events/s | ms each | n log n | cost |
|---:|---:|---:|---:|---:|---:|---:|---|
{chr(10).join(rows)}

Fewest: events of the shortest schedule whose job finished (one that ends early, by its budget, has less).

Jobs on several nodes, three faults of nodes and ranks a schedule:

| nodes | ranks | schedules/s | events | events/s |
|---:|---:|---:|---:|---:|
{chr(10).join(fleets)}

Where the time goes at 4 ranks (profiled, so slower than above):

{profile()}
"""
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
