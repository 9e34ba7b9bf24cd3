"""The tool killed with SIGKILL at every boundary of its undo journal, for every fault that has an undo.

A sample is drawn in every run of the tests, its seed printed; TORCH_CHAOS_SEED repeats one, and with
TORCH_CHAOS_EVERY_BOUNDARY=1 every boundary of every fault is taken.
"""

from __future__ import annotations

import json
import os
import random
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from chaos.clusters import processes
from chaos.undo import shm
from injectors.catalogue import CATALOGUE
from tests.chaos.runs import chaos, environment
from tests.chaos.undo import machine
from tests.chaos.undo.doomed import Point
from tests.chaos.undo.setups import SETUPS, Stage, fault_of, needs_of, plan_for, ways
from tests.chaos.undo.strangers import strangers

pytestmark = [pytest.mark.slow, pytest.mark.alone]

BOUND_S = 5.0
SAMPLED_FAULTS, SAMPLED_POINTS = 3, 3
ALL = os.environ.get("TORCH_CHAOS_EVERY_BOUNDARY") == "1"
WAYS = ways()


@dataclass
class Bench:
    """One fault, ready to be run again and again in a folder of its own."""

    way: str
    folder: Path
    stage: Stage
    before: dict[str, str] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)
    runs: int = 0

    @property
    def fault(self) -> str:
        return fault_of(self.way)

    def look(self) -> dict[str, str]:
        """The machine, and what the fault acts on."""
        return machine.snapshot() | self.stage.look()

    def run(self, point: Point | None) -> Run:
        """One run, killed at the point; None lets it live."""
        self.runs += 1
        trace = self.folder / f"trace-{self.runs}.jsonl"
        known = set(self._reports())
        since, memory = time.time(), shm.entries()
        doomed = [sys.executable, "-m", "tests.chaos.undo.doomed", point.to_json() if point else "null"]
        done = subprocess.run(
            [*doomed, str(trace), "replay", str(self.folder / "plan.json"), "--format", "plain"],
            env=environment(**self.stage.env), cwd=self.folder, timeout=150,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        ended = time.monotonic()
        new = [path for path in self._reports() if path not in known]
        folder = new[0] if new else None
        return Run(done.returncode, done.stdout + done.stderr, folder, trace, ended, since, memory)

    def _reports(self) -> list[Path]:
        found = sorted((self.folder / "reports").glob("undo-*")) + sorted(
            (self.folder / "reports").glob("*-*-*")
        )
        return list(dict.fromkeys(found))


@dataclass
class Run:
    """A run that has ended."""

    code: int
    said: str
    folder: Path | None
    trace: Path
    ended: float
    since: float
    memory: set[str]

    @property
    def opening(self) -> dict[str, object]:
        """The first line of its journal; {} where it did not get so far."""
        try:
            assert self.folder is not None
            opening: dict[str, object] = json.loads((self.folder / "undo.jsonl").read_text().splitlines()[0])
            return opening
        except (AssertionError, OSError, IndexError, ValueError):
            return {}


def bench(way: str, folder: Path) -> Bench:
    """Run the fault once to its end and note every boundary that it passed.

    The fault must be verified and undone; whether it is held too short for a recovery is no matter here.
    """
    fault = fault_of(way)
    plan = plan_for(way, folder)
    (folder / "plan.json").write_text(plan.to_json())
    stage = SETUPS[way].stage if way in SETUPS else None
    made = Bench(way, folder, Stage() if stage is None else stage(folder))
    made.before = made.look()
    first = made.run(None)
    assert first.code in (0, 1), first.said
    for stage in ("verified", "undone"):
        assert re.search(rf"{stage} f\d+ {re.escape(fault)}", first.said), first.said
    made.points = list(points_of(fault, first.trace))
    labels = {point.label for point in made.points}
    assert {f"inject {fault}", f"undo {fault}"} <= labels, f"the fault was not injected and undone: {labels}"
    assert_as_before(made, first, "a run to its end", set())
    return made


def points_of(fault: str, trace: Path) -> Iterator[Point]:
    """Every boundary of a run, from what it passed. Twins are kept, so that their lines come only once."""
    for line in map(json.loads, trace.read_text().splitlines()):
        point = Point(line["label"], "before", line["nth"])
        if "twin-" in point.label:
            continue
        yield replace(point, how="after")
        if line["kind"] == "line":
            yield point
            yield replace(point, how="torn")
        elif point.label.split()[0] in ("inject", "undo"):
            for part in (0.2, 0.5, 0.8):
                yield replace(point, how="during", delay_s=round(part * line["took_s"], 6))
        if point.label == f"inject {fault}":
            yield replace(point, how="after", reaper=True)


def strike(made: Bench, point: Point) -> None:
    """Kill a run at a point; the machine must be as before within the bound, or after a rollback."""
    killed = made.run(point)
    if killed.code in (0, 1) and point.label == f"undo {made.fault}" and CATALOGUE[made.fault].inside:
        # The agent ends such a fault by itself when its time is up, and was the first to do so.
        assert_as_before(made, killed, "a run in which the agent was first", killed.memory)
        return
    assert killed.code == -signal.SIGKILL, f"{point} was not reached:\n{killed.said}"
    if point.reaper:
        roll_back(killed)
    limit = killed.ended + BOUND_S
    while (left := list(what_is_left(made, killed))) and time.monotonic() < limit:
        time.sleep(0.1)
    if left:
        roll_back(killed)
    assert_as_before(made, killed, str(point), killed.memory)
    if killed.folder is not None and killed.opening:
        roll_back(killed)
        journal = (killed.folder / "undo.jsonl").read_bytes()
        roll_back(killed)
        assert (killed.folder / "undo.jsonl").read_bytes() == journal
        assert_as_before(made, killed, f"{point}, rolled back again", killed.memory)


def roll_back(killed: Run) -> None:
    if killed.folder is not None:
        done = chaos("rollback", killed.folder)
        assert done.returncode == 0, done.stdout + done.stderr


def assert_as_before(made: Bench, run: Run, what: str, memory: set[str]) -> None:
    left = list(what_is_left(made, run))
    assert left == [], f"{made.way}, {what}:\n" + "\n".join(left)


def what_is_left(made: Bench, run: Run) -> Iterator[str]:
    name, temp = str(run.opening.get("run", "")), run.opening.get("temp")
    yield from machine.differences(made.before, made.look(), name)
    for process in processes.marked(name) if name else ():
        yield f"process {process.pid}: {' '.join(processes.argv(process.pid))}"
    if temp and Path(str(temp)).exists():
        yield f"folder {temp}"
    for left in shm.left(run.memory, run.since, name) if name else ():
        if left.startswith(shm.OURS):
            yield f"/dev/shm/{left}"


@pytest.fixture(scope="module")
def others() -> Iterator[list[str]]:
    """What is not ours, on this machine for as long as these tests run."""
    before = machine.snapshot()
    with strangers() as made:
        state = machine.snapshot()
        assert set(made) <= set(state)
        yield made
        after = machine.snapshot()
        assert {name: after.get(name) for name in made} == {name: state[name] for name in made}
    assert [line for line in machine.differences(before, machine.snapshot()) if "stranger" in line] == []


def possible(require: Callable[[str], None]) -> list[str]:
    """The ways to have a fault with an undo that this machine can show."""
    found = []
    for way in WAYS:
        try:
            for need in needs_of(way):
                require(need)
        except pytest.skip.Exception:
            continue
        found.append(way)
    return found


@pytest.mark.timeout(900)
@pytest.mark.skipif(ALL, reason="every boundary is taken below")
def test_a_sample_of_boundaries(
    others: list[str], tmp_path: Path, require: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("TORCH_CHAOS_SEED") or secrets.randbelow(2**31))
    with capsys.disabled():
        print(f"\nboundaries: TORCH_CHAOS_SEED={seed}", flush=True)
    rng = random.Random(seed)
    for number, way in enumerate(rng.sample(possible(require), SAMPLED_FAULTS)):
        folder = tmp_path / str(number)
        folder.mkdir()
        made = bench(way, folder)
        for point in rng.sample(made.points, SAMPLED_POINTS):
            strike(made, point)


@pytest.mark.timeout(3600)
@pytest.mark.skipif(not ALL, reason="TORCH_CHAOS_EVERY_BOUNDARY=1 takes every boundary, which takes hours")
@pytest.mark.parametrize("way", WAYS)
def test_every_boundary(others: list[str], way: str, tmp_path: Path, require: Callable[[str], None]) -> None:
    for need in needs_of(way):
        require(need)
    made = bench(way, tmp_path)
    for point in made.points:
        strike(made, point)


@pytest.mark.parametrize("way", WAYS)
def test_every_fault_with_an_undo_can_be_run_here(way: str, tmp_path: Path) -> None:
    plan = plan_for(way, tmp_path)
    assert [f.name for scenario in plan.scenarios for f in scenario.faults].count(fault_of(way)) >= 1
