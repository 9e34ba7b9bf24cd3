"""Planned scenarios, made as a suite would make them."""

from __future__ import annotations

import json
from typing import Any

from chaos.plan import Facts, Plan, PlannedScenario, make_plan
from chaos.suite.load import load_text
from injectors.catalogue import CATALOGUE

FACTS = Facts("", {}, "package:suites")
TARGET = {
    "kind": "recovery",
    "workload": "tiny_gpt",
    "world": 4,
    "spares": 1,
    "steps": 40,
    "args": ["--steps", "40"],
}


def planned(faults: list[dict[str, Any]], target: dict[str, Any] | None = None, **more: Any) -> Plan:
    """A plan of one scenario `s` with these fault entries; `target` changes the default one."""
    scenario = {"name": "s", "faults": faults, **more}
    suite = {
        "suite": "shrunk",
        "seed": 1,
        "defaults": {"target": {**TARGET, **(target or {})}},
        "scenarios": [scenario],
    }
    return make_plan(load_text(json.dumps(suite), "a test", CATALOGUE), None, FACTS, CATALOGUE)


def scenario_of(
    faults: list[dict[str, Any]], target: dict[str, Any] | None = None, **more: Any
) -> PlannedScenario:
    """The one scenario of such a plan."""
    return planned(faults, target, **more).scenarios[0]


def kill(rank: int | None = None, step: int = 20, **more: Any) -> dict[str, Any]:
    """A process.kill in backward, of a rank or of a role."""
    where = {"role": more.pop("role")} if rank is None else {"rank": rank}
    return {"fault": "process.kill", "where": where, "when": {"step": step, "phase": "backward"}, **more}
