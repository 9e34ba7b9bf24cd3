"""The suites that ship: each loads, plans, and keeps what its name promises."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from chaos.invariants import catalogue as invariants
from chaos.plan import Facts, Plan, make_plan
from chaos.suite import load
from injectors.catalogue import CATALOGUE as faults

SUITES = Path(__file__).parents[2] / "suites"
NAMES = (
    "smoke",
    "process",
    "collectives",
    "recovery_under_fire",
    "torchrun",
    "soak",
    "controls",
    "gpu",
    "store",
    "data",
    "host",
    "storage",
    "network",
    "network_docker",
    "network_torchrun",
    "nodes",
    "nodes_docker",
)
FACTS = Facts(torch="2.13.0", sources={}, folder="package:suites")


def plan_of(name: str, seed: int | None = None) -> Plan:
    return make_plan(load(str(SUITES / f"{name}.yaml"), faults), seed, FACTS, faults)


def during_recovery(scenario: Any) -> bool:
    return any(
        fault.when.get("event", "").startswith(("recovery.", "member.")) or "after_fault" in fault.when
        for fault in scenario.faults
    )


def test_the_list_above_is_complete() -> None:
    assert {path.stem for path in SUITES.glob("*.yaml")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_loads_and_the_same_seed_gives_the_same_plan(name: str) -> None:
    assert plan_of(name).to_json() == plan_of(name).to_json()
    assert plan_of(name).suite == name


@pytest.mark.parametrize("name", ["smoke", "process", "recovery_under_fire", "soak"])
def test_another_seed_gives_another_plan(name: str) -> None:
    assert plan_of(name, 1001).hash != plan_of(name, 1002).hash


@pytest.mark.parametrize("name", NAMES)
def test_the_script_is_told_the_number_of_steps_that_the_plan_expects(name: str) -> None:
    for scenario in plan_of(name).scenarios:
        words = scenario.target.get("args") or scenario.target.get("argv")
        assert words[words.index("--steps") + 1] == str(scenario.target["steps"]), scenario.name


@pytest.mark.parametrize("name", NAMES)
def test_scenarios_of_one_workload_share_their_twin(name: str) -> None:
    """Every further twin costs a whole run."""
    twins: dict[str, set[str]] = {}
    for scenario in plan_of(name).scenarios:
        target = scenario.target
        key = " ".join(str(target.get(part)) for part in ("workload", "args", "argv", "env", "cluster"))
        twins.setdefault(key, set()).add(scenario.twin)
    assert {key: len(hashes) for key, hashes in twins.items() if len(hashes) > 1} == {}


def test_smoke_is_small_and_strikes_twice_during_a_recovery() -> None:
    scenarios = plan_of("smoke").scenarios
    assert 12 <= len(scenarios) <= 16
    assert sum(during_recovery(scenario) for scenario in scenarios) >= 2
    families = {fault.name.split(".")[0] for scenario in scenarios for fault in scenario.faults}
    assert families == {"process", "collective"}


def test_every_phase_of_a_recovery_is_struck() -> None:
    struck = Counter(
        fault.when["event"]
        for scenario in plan_of("recovery_under_fire").scenarios
        for fault in scenario.faults
        if "event" in fault.when
    )
    assert {f"recovery.{phase}" for phase in ("detect", "fence", "regroup", "transfer", "resume")} <= set(
        struck
    )
    assert struck["member.enter"] >= 2


def test_soak_strikes_as_often_as_it_says() -> None:
    scenarios = {scenario.name: scenario for scenario in plan_of("soak").scenarios}
    assert len(scenarios["two_hundred_kills"].faults) == 200
    doubles = scenarios["one_hundred_double_kills"].faults
    assert len(doubles) == 200
    firsts = {fault.id: fault for fault in doubles if "step" in fault.when}
    for second in doubles[100:]:
        assert second.where != firsts[second.when["after_fault"]].where


def test_each_kind_of_fault_is_used() -> None:
    used = {fault.name for name in NAMES for s in plan_of(name).scenarios for fault in s.faults}
    assert set(faults) - used == set()


def test_controls_cover_every_seeded_bug_and_name_a_known_invariant() -> None:
    tree = ast.parse((SUITES / "workloads" / "seeded_bugs.py").read_text(encoding="utf-8"))
    assigned = [n for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "BUGS"]
    bugs: dict[str, str] = ast.literal_eval(assigned[0].value)
    scenarios = plan_of("controls").scenarios
    run = {words[words.index("--bug") + 1] if "--bug" in words else "none" for words in _args(scenarios)}
    assert run == set(bugs)
    for scenario in scenarios:
        args = scenario.target["args"]
        bug = args[args.index("--bug") + 1] if "--bug" in args else "none"
        healthy = bugs[bug].startswith("no bug")
        assert scenario.expect["verdict"] == ("PASS" if healthy else "VIOLATED"), scenario.name
        assert healthy or scenario.expect["invariant"] in invariants, scenario.name


def _args(scenarios: list[Any]) -> list[list[str]]:
    return [scenario.target["args"] for scenario in scenarios]
