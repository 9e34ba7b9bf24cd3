"""`torch-chaos simulate protocol`: search, replay, report."""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.pool
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from chaos.cli import times
from chaos.errors import Exit, UserError
from chaos.simulation import coverage, search
from chaos.simulation.plan import SimPlan
from chaos.simulation.run import Outcome, run_plan
from chaos.simulation.shrink import shrink

PROGRESS_S = 5.0


@dataclass(frozen=True)
class Wanted:
    """What to search, as given."""

    world: int | None
    faults: int | None
    seed: int | None
    mode: str
    nodes: int | None = None


@dataclass(frozen=True)
class Bounds:
    """How much of it."""

    schedules: int | None
    for_: str | None
    jobs: int


def simulate(wanted: Wanted, bounds: Bounds, plan: Path | None, plans: Path, record: Path | None) -> int:
    """The verb: replay one plan, or search."""
    if plan is not None:
        return replay(plan)
    for_s: float | None = None
    if bounds.for_ is not None:
        for_s = times.seconds("--for", bounds.for_, "60s, 2m")
    seed = wanted.seed if wanted.seed is not None else secrets.randbelow(2**31)
    options = search.Options(seed, wanted.mode, wanted.world, wanted.faults, nodes=wanted.nodes)
    return run(options, bounds.schedules, for_s, bounds.jobs, plans, record)


def read_plan(path: Path) -> SimPlan:
    """A plan from its file.

    Raises:
        UserError: there is none, or it is damaged.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: {error}", "give a plan that `torch-chaos simulate` wrote") from None
    return SimPlan.from_dict(data)


def replay(path: Path) -> int:
    """Run one plan and show its history."""
    outcome = run_plan(read_plan(path), record=True)
    sys.stdout.write(outcome.history_json())
    if outcome.violation is not None:
        print(f"violated: {outcome.violation}", file=sys.stderr)
        return Exit.VIOLATED
    print(f"{outcome.events} events, the job ended: {outcome.reason}", file=sys.stderr)
    return Exit.PASSED


def run(
    options: search.Options,
    schedules: int | None,
    for_s: float | None,
    jobs: int,
    plans: Path,
    record: Path | None,
) -> int:
    """Search until the schedules are done or the time is up; 1 if an invariant was violated."""
    if schedules is None and for_s is None:
        schedules = 10_000
    print(f"simulate protocol: seed {options.seed}, mode {options.mode}, {jobs} process(es)", flush=True)
    started = time.monotonic()
    total, used_s = _collect(options, schedules, for_s, jobs)
    print(f"{total.schedules} schedules, {total.events} events in {used_s:.1f} s with {jobs} process(es)")
    print(_rate(total))
    print("ends: " + ", ".join(f"{reason} {times}" for reason, times in total.ends.most_common()))
    print(f"{coverage.transitions(total.seen)} different (phase, message, status)")
    print(coverage.table(total.seen))
    if record is not None:
        _write_record(record, options, total, time.monotonic() - started, jobs)
    if total.found is None:
        print("no violation")
        return Exit.PASSED
    assert total.number is not None
    return tell(total.found, total.number, plans)


def _rate(total: search.Tally) -> str:
    """What one core does: other programs on this machine do not count."""
    cpu_s = max(total.cpu_s, 1e-9)
    each = total.events / max(total.schedules, 1)
    return (
        f"a core's second: {total.schedules / cpu_s:.0f} schedules of {each:.0f} events,"
        f" {total.events / cpu_s:.0f} events"
    )


def _collect(
    options: search.Options, schedules: int | None, for_s: float | None, jobs: int
) -> tuple[search.Tally, float]:
    total = search.Tally()
    started = told = time.monotonic()
    with _pool(jobs, search.chunks(options, schedules), for_s) as tallies:
        for tally in tallies:
            total.add(tally)
            now = time.monotonic()
            if total.found is not None or (for_s is not None and now - started >= for_s):
                break
            if now - told >= PROGRESS_S:
                told = now
                rate = total.schedules / (now - started)
                print(f"  {total.schedules} schedules, {rate:.0f}/s", file=sys.stderr, flush=True)
    return total, max(time.monotonic() - started, 1e-6)


@contextmanager
def _pool(
    jobs: int, work: Iterator[tuple[search.Options, int, int]], for_s: float | None
) -> Iterator[Iterator[search.Tally]]:
    """Tallies in order of chunks, whoever computes them."""
    if jobs == 1:
        yield map(search.run_chunk, work)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield _bounded(pool, work, jobs)
        pool.terminate()


def _bounded(
    pool: multiprocessing.pool.Pool, work: Iterator[tuple[search.Options, int, int]], jobs: int
) -> Iterator[search.Tally]:
    """A few chunks ahead, not all: the work may have no end."""
    waiting: list[multiprocessing.pool.AsyncResult[search.Tally]] = []
    for arguments in work:
        waiting.append(pool.apply_async(search.run_chunk, (arguments,)))
        if len(waiting) >= 3 * jobs:
            yield waiting.pop(0).get()
    for result in waiting:
        yield result.get()


def tell(found: Outcome, number: int, folder: Path) -> int:
    """Shrink what was found, keep its plan, say how to replay it."""
    assert found.violation is not None
    small = shrink(found)
    assert small.violation is not None
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{small.violation.invariant}-{small.plan.seed}.json"
    path.write_text(json.dumps(small.plan.to_dict(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"VIOLATED {small.violation.invariant}: {small.violation.detail}")
    print(f"  schedule {number}, {len(found.plan.faults)} faults, shrunk to {len(small.plan.faults)}:")
    for fault in small.plan.faults:
        print(f"    {fault.name} at {fault.where} when {fault.when}")
    where = f" on {small.plan.nodes} nodes" if small.plan.nodes > 1 else ""
    print(f"  seed {small.plan.seed}, {small.plan.world} ranks{where}, {small.plan.spares} spares")
    print(f"  replay: torch-chaos simulate protocol --plan {path}")
    return Exit.VIOLATED


def _write_record(path: Path, options: search.Options, total: search.Tally, used_s: float, jobs: int) -> None:
    verdict = "no violation" if total.found is None else f"VIOLATED: {total.found.violation}"
    worlds = ", ".join(f"{world} ranks {times}" for world, times in sorted(total.worlds.items()))
    nodes = ", ".join(f"{count} {times:,}" for count, times in sorted(total.nodes.items()))
    more = "" if options.world is None else f" --world {options.world}"
    more += "" if options.nodes is None else f" --nodes {options.nodes}"
    which = f"--seed {options.seed} --mode {options.mode}{more} --jobs {jobs}"
    lines = [
        f"# {total.schedules:,} simulated schedules: {verdict}",
        "",
        f"    torch-chaos simulate protocol --schedules {total.schedules} {which}",
        "",
        f"- {total.events:,} events in {used_s:.0f} s with {jobs} process(es)",
        f"- {_rate(total)}",
        f"- sizes: {worlds}",
        f"- nodes: {nodes}",
        "- ends: " + ", ".join(f"{reason} {times:,}" for reason, times in total.ends.most_common()),
        f"- {coverage.transitions(total.seen)} different (phase of the coordinator, message, status)",
        "",
        "Where faults struck (schedules in which it happened; a dot is a blank):",
        "",
        *("    " + line for line in coverage.table(total.seen).splitlines()),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
