"""Two suites at once: both pass, and neither sees the other's faults."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from chaos import cards
from chaos.plan import PlannedScenario, make_plan
from chaos.runner import facts
from chaos.suite import find, load, shipped
from injectors.catalogue import CATALOGUE
from tests.chaos.runs import COMMAND, Done, environment, suite

pytestmark = pytest.mark.slow

FAULTS = """\
  - name: it
    faults:
      - {fault: process.kill, where: {rank: 1}, when: {step: 10, phase: data}, repeat: {count: 3, every: 12}}
      - {fault: process.stop, where: {rank: 2}, when: {step: 14, phase: data}, for: 300ms}
"""
QUIET = "  - name: it\n"


def at_once(*commands: tuple[list[object], Path]) -> list[Done]:
    """`torch-chaos ARGS --report-dir FOLDER` for each, side by side, to their ends."""
    running = [
        subprocess.Popen(
            [*COMMAND, *map(str, args), "--report-dir", str(folder), "--format", "plain"],
            env=environment(), cwd="/", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for args, folder in commands
    ]  # fmt: skip
    said = [process.communicate(timeout=400)[0] for process in running]
    return [
        Done(process.returncode, out, "", folder)
        for process, out, (_, folder) in zip(running, said, commands, strict=True)
    ]


def pids(done: Done, scenario: str) -> set[int]:
    """The processes that a history names, without the engine's own."""
    return {event["pid"] for event in done.history(scenario) if event.get("source") != "engine"}


def test_a_suite_of_faults_beside_a_quiet_one(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    broken = suite(tmp_path / "a", FAULTS, steps=60, options={"step_s": 0.03})
    quiet = suite(tmp_path / "b", QUIET, steps=60, options={"step_s": 0.03})
    first, second = at_once((["run", broken], tmp_path / "a" / "r"), (["run", quiet], tmp_path / "b" / "r"))
    assert first.code == 0, first.out
    assert second.code == 0, second.out
    assert first.report["scenarios"][0]["verdict"] == second.report["scenarios"][0]["verdict"] == "PASS"
    assert pids(first, "it") & pids(second, "it") == set()
    assert [e for e in second.history("it") if e["event"].startswith(("fault.", "recovery."))] == []


@pytest.mark.timeout(900)
def test_two_cut_networks_at_once(tmp_path: Path, require: Callable[[str], None]) -> None:
    """The same partition twice, side by side: the nodes have the same names and addresses in both."""
    require("netns")
    require("nft")
    name, scenario = partition()
    loaded = load(name, CATALOGUE)
    plan = make_plan(loaded, None, facts.for_plan(find(name), list(loaded.targets)), CATALOGUE)
    path = tmp_path / "plan.json"
    path.write_text(replace(plan, scenarios=[scenario]).to_json())
    both = at_once((["replay", path], tmp_path / "a"), (["replay", path], tmp_path / "b"))
    for done in both:
        # Two jobs on two processors recover more slowly than the suite allows one; nothing else may differ.
        assert done.code in (0, 1), done.out
        invariants = done.report["scenarios"][0]["invariants"]
        wrong = {item["name"] for item in invariants if item["verdict"] == "VIOLATED"}
        assert wrong <= {"recovered_within_bounds"}, done.out
        stages = {e["event"] for e in done.history(scenario.name) if e["event"].startswith("fault.")}
        assert {"fault.fired", "fault.verified", "fault.undone", "fault.undo_verified"} <= stages
        assert "fault.failed" not in stages
        fired = [e for e in done.history(scenario.name) if e["event"] == "fault.fired"]
        assert len(fired) == 1


def partition() -> tuple[str, PlannedScenario]:
    """The shortest shipped scenario with a partition on network namespaces."""
    found = []
    for name in shipped():
        loaded = load(name, CATALOGUE)
        if not any(use.suite == name for use in cards.uses().get("net.partition", ())):
            continue
        plan = make_plan(loaded, None, facts.for_plan(find(name), list(loaded.targets)), CATALOGUE)
        found += [
            (name, scenario)
            for scenario in plan.scenarios
            if [fault.name for fault in scenario.faults] == ["net.partition"]
            and (scenario.target.get("cluster") or {}).get("kind") == "netns"
            and scenario.expect["verdict"] == "PASS"
        ]
    return min(found, key=lambda one: one[1].target["steps"] * one[1].target["world"])


def test_histories_are_read_from_where_they_were_written(tmp_path: Path) -> None:
    """The checks above are worth something: the pids of a history are those of its job."""
    (tmp_path / "a").mkdir()
    path = suite(tmp_path / "a", QUIET, steps=10)
    (done,) = at_once((["run", path], tmp_path / "r"))
    assert len(pids(done, "it")) == 4
    assert json.loads((tmp_path / "r" / "report.json").read_text())["exit_code"] == 0
