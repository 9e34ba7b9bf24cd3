"""Every fault takes effect here, in a scenario that ships: fired, verified, undone, undo verified."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from chaos.plan import Plan, PlannedScenario, make_plan
from chaos.runner import facts
from chaos.suite import find, load, shipped
from injectors.catalogue import CATALOGUE
from tests.chaos.report.trace_format import problems
from tests.chaos.runs import chaos
from tests.chaos.undo.setups import gpus

# README's first command, which CI has run when it comes here, shows these.
IN_SMOKE = {entry.fault for scenario in load("smoke", CATALOGUE).suite.scenarios for entry in scenario.faults}
# Acts inside a process that works with CUDA. The other faults of devices are shown on a stand-in.
ONLY_ON_A_GPU = {"gpu.stuck_kernel", "gpu.device_assert"}
# What a cluster of a kind needs of the machine.
NEEDS = {"netns": ("netns", "nft"), "docker": ("docker",)}


@dataclass(frozen=True)
class Candidate:
    """A scenario that could show some faults, and what it costs to run it."""

    suite: str
    scenario: PlannedScenario

    @property
    def faults(self) -> set[str]:
        return {fault.name for fault in self.scenario.faults}

    @property
    def cost(self) -> tuple[int, int, int, int, int]:
        """Soak runs and seeded bugs last, containers after namespaces, strangers after our own runtime, long
        jobs after short ones."""
        kinds = [None, "local", "netns", "docker"]
        kind = (self.scenario.target.get("cluster") or {}).get("kind")
        target = self.scenario.target
        seeded = self.scenario.expect["verdict"] != "PASS"
        stranger = int(target["kind"] != "recovery")
        length = target["steps"] * target["world"]
        return len(self.scenario.faults), int(seeded), kinds.index(kind), stranger, length


def candidates() -> list[Candidate]:
    found = []
    for suite in shipped():
        loaded = load(suite, CATALOGUE)
        plan = make_plan(loaded, None, facts.for_plan(find(suite), list(loaded.targets)), CATALOGUE)
        found += [Candidate(suite, scenario) for scenario in plan.scenarios if scenario.faults]
    return [one for one in found if one.scenario.expect["verdict"] in ("PASS", "VIOLATED")]


def chosen() -> dict[str, list[PlannedScenario]]:
    """The cheapest scenario for each fault that is not shown yet, by suite."""
    pool = sorted(candidates(), key=lambda one: one.cost)
    taken: dict[str, list[PlannedScenario]] = {}
    shown: set[str] = set()
    for name in CATALOGUE:
        if name in shown | IN_SMOKE | ONLY_ON_A_GPU:
            continue
        one = next((one for one in pool if name in one.faults), None)
        if one is not None:
            taken.setdefault(one.suite, []).append(one.scenario)
            shown |= one.faults
    return taken


CHOSEN = chosen()


def test_every_fault_that_can_be_shown_here_is() -> None:
    shown = {fault.name for scenarios in CHOSEN.values() for s in scenarios for fault in s.faults}
    assert set(CATALOGUE) - shown - IN_SMOKE == ONLY_ON_A_GPU


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("suite", CHOSEN)
def test_each_fault_leaves_its_evidence(suite: str, tmp_path: Path, require: Callable[[str], None]) -> None:
    for scenario in CHOSEN[suite]:
        for need in NEEDS.get((scenario.target.get("cluster") or {}).get("kind"), ()):
            require(need)
    path = tmp_path / "plan.json"
    path.write_text(plan_of(suite).to_json())
    env = gpus(tmp_path).env if suite == "gpu" else {}
    report_dir = tmp_path / "r"
    args = ("replay", path, "--report-dir", report_dir, "--format", "plain")
    done = chaos(*args, timeout_s=800, cwd=Path("/"), **env)
    # A recovery may take longer than a suite allows when the machine does other things besides.
    assert done.returncode in (0, 1), done.stdout + done.stderr
    report = json.loads((report_dir / "report.json").read_text())
    assert [s["name"] for s in report["scenarios"] if not as_expected(s)] == [], done.stdout
    assert problems((report_dir / "trace.json").read_text(encoding="utf-8")) == []
    for scenario in CHOSEN[suite]:
        history = report_dir / scenario.name / "history.jsonl"
        events = [json.loads(line) for line in history.read_text().splitlines()]
        for fault in scenario.faults:
            assert wanted(fault.has_undo) <= proven(events, fault.id), f"{scenario.name}: {fault.name}"


def plan_of(suite: str) -> Plan:
    loaded = load(suite, CATALOGUE)
    plan = make_plan(loaded, None, facts.for_plan(find(suite), list(loaded.targets)), CATALOGUE)
    names = {scenario.name for scenario in CHOSEN[suite]}
    return replace(plan, scenarios=[scenario for scenario in plan.scenarios if scenario.name in names])


def as_expected(scenario: dict[str, Any]) -> bool:
    violated = {finding["name"] for finding in scenario["invariants"] if finding["verdict"] == "VIOLATED"}
    return bool(scenario["as_expected"]) or violated == {"recovered_within_bounds"}


def wanted(has_undo: bool) -> set[str]:
    return {"fired", "verified", "undone", "undo_verified"} if has_undo else {"fired", "verified"}


def proven(events: list[dict[str, Any]], fault: str) -> set[str]:
    """The stages of a fault that came with evidence that says yes."""
    return {
        event["event"].removeprefix("fault.")
        for event in events
        if event.get("fault") == fault and event.get("evidence", {}).get("proven")
    }
