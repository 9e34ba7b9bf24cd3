"""A finding made small, with a stand-in for the bench that real runs take place on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

from chaos.errors import UserError
from chaos.fuzz.seen import UNFINISHED
from chaos.fuzz.shrinking import Shrinker
from chaos.plan import Plan
from chaos.runner.interrupt import Interrupted
from chaos.testing.bench import Bench
from chaos.testing.repeats import Category, Judged
from chaos.testing.result import Result
from tests.chaos.fuzz.stand_in import verdict_of
from tests.chaos.shrinking.planned import kill, planned

FOREVER = float("inf")


class StandInBench:
    """Has no bench: a plan fails while it holds a process.stop. What follows the third run is the test's."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.home, self.then, self.runs = Path("/nowhere"), then, 0

    def run(self, plan: Plan, folder: Path) -> Result:
        self.runs += 1
        if self.runs > 3:
            self.then()
        folder.mkdir(parents=True)
        bad = any(fault.name == "process.stop" for fault in plan.scenarios[0].faults)
        return verdict_of(plan, "VIOLATED" if bad else "PASS", folder)


def failing(folder: Path, failures: int = 2, runs: int = 2) -> Judged:
    stop = {"fault": "process.stop", "where": {"rank": 2}, "when": {"step": 9, "phase": "forward"}}
    plan = planned([kill(1, 4), stop, kill(3, 14), kill(0, 20)])
    return Judged(Category.FAILED, failures, runs, verdict_of(plan, "VIOLATED", folder / "as-found"))


def shrinker(bench: StandInBench, budget_s: float = FOREVER, stopped: bool = False) -> Shrinker:
    return Shrinker(cast(Bench, bench), budget_s, FOREVER, lambda: stopped)


def kept(folder: Path) -> list[str]:
    (scenario,) = Plan.from_dict(json.loads((folder / "plan.json").read_text())).scenarios
    return [fault.name for fault in scenario.faults]


def test_it_comes_down_to_the_fault_that_matters(tmp_path: Path) -> None:
    bench = StandInBench()
    small = shrinker(bench)(failing(tmp_path), tmp_path)
    assert small.faults == ("process.stop",)
    assert small.said == f"nothing smaller fails, in {bench.runs} runs"
    assert not small.interrupted
    assert kept(tmp_path) == ["process.stop"]
    assert (tmp_path / "test_s.py").is_file()
    (last,) = (tmp_path / "runs").iterdir()
    assert last.name.startswith("run-"), "of all runs, the one that shows the smallest plan stays"


def test_without_time_the_plan_stays_as_it_was_found(tmp_path: Path) -> None:
    bench = StandInBench()
    small = shrinker(bench, budget_s=0.0)(failing(tmp_path), tmp_path)
    assert small.said == f"{UNFINISHED}: the budget was up after 0 runs"
    assert len(small.faults) == len(kept(tmp_path)) == 4
    bench = StandInBench()
    over = Shrinker(cast(Bench, bench), FOREVER, time.monotonic(), lambda: False)(failing(tmp_path), tmp_path)
    assert over.said == f"{UNFINISHED}: the time was up after 0 runs"
    assert bench.runs == 0


def test_interrupted_it_keeps_the_smallest_so_far(tmp_path: Path) -> None:
    def interrupt() -> None:
        raise Interrupted("SIGINT")

    small = shrinker(StandInBench(interrupt))(failing(tmp_path), tmp_path)
    assert small.interrupted
    assert small.said == f"{UNFINISHED}: interrupted"
    assert small.faults == tuple(kept(tmp_path))
    assert 1 <= len(small.faults) < 4


def test_an_interruption_between_two_runs_is_one_too(tmp_path: Path) -> None:
    bench = StandInBench()
    small = shrinker(bench, stopped=True)(failing(tmp_path), tmp_path)
    assert (small.interrupted, bench.runs, len(small.faults)) == (True, 0, 4)
    assert small.said == f"{UNFINISHED}: interrupted"


def test_a_smaller_job_that_is_refused_here_does_not_lose_the_finding(tmp_path: Path) -> None:
    def refuse() -> None:
        raise UserError("/dev/shm is full", "make room")

    small = shrinker(StandInBench(refuse))(failing(tmp_path), tmp_path)
    assert small.said == f"{UNFINISHED}: /dev/shm is full"
    assert not small.interrupted
    assert small.faults == tuple(kept(tmp_path))


def test_what_comes_and_goes_is_tried_twice(tmp_path: Path) -> None:
    once, twice = StandInBench(), StandInBench()
    shrinker(once)(failing(tmp_path / "a"), tmp_path / "a")
    shrinker(twice)(failing(tmp_path / "b", 2, 3), tmp_path / "b")
    assert twice.runs > once.runs
