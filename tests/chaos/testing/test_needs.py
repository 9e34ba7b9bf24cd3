"""What is missing skips a test, or fails it where it was required."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.clusters import make
from chaos.clusters.base import Ability
from chaos.plan import Plan, PlannedFault, PlannedScenario
from chaos.runner import facts
from chaos.testing.needs import Missing, missing, names, skip_or_fail
from chaos.testing.options import Options
from injectors.catalogue import CATALOGUE
from injectors.fault import Mechanism


def plan(fault: str = "process.kill", cluster: dict[str, Any] | None = None) -> Plan:
    planned = PlannedFault("f1", fault, {"rank": 0}, {"step": 1}, False, {}, None, 0, None, False)
    target: dict[str, Any] = {"kind": "recovery", "world": 2, **({"cluster": cluster} if cluster else {})}
    scenario = PlannedScenario("s", "", 0, target, [planned], {}, {}, None, "")
    return Plan("p", 0, "/", [scenario])


def test_nothing_is_missing_for_what_every_machine_can_do() -> None:
    assert missing(plan()) == []


def test_a_fault_without_a_mechanism_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> str:
        raise OSError("no driver")

    ways = tuple(
        Mechanism(name=str(n), fidelity="", probe=probe) for n, probe in enumerate((lambda: "no", broken))
    )
    monkeypatch.setattr(CATALOGUE["process.kill"], "mechanisms", ways)
    (found,) = missing(plan())
    assert str(found) == "process.kill: no"
    assert found.required({"process"})
    assert found.names <= names()
    assert not found.required({"netns"})


def test_a_cluster_that_cannot_be_made_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(make.PROBES, "docker", lambda: Ability(False, "no daemon", "start dockerd"))  # type: ignore[arg-type]
    (found,) = missing(plan(cluster={"kind": "docker", "nodes": 2}))
    assert str(found) == "cluster docker: no daemon; start dockerd"
    assert found.required({"docker"})
    assert found.names <= names()


def test_torch_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "torch_version", lambda: "")
    assert [each.what for each in missing(plan())] == ["torch"]


def test_missing_skips_and_required_fails() -> None:
    lacking = [Missing("cluster docker", "no daemon", frozenset({"docker", "all"}))]
    skip_or_fail([], Options(require=frozenset({"all"})))
    with pytest.raises(pytest.skip.Exception, match="cluster docker: no daemon"):
        skip_or_fail(lacking, Options(require=frozenset({"netns"})))
    with pytest.raises(pytest.fail.Exception, match="--torch-chaos-require says that this machine has it"):
        skip_or_fail(lacking, Options(require=frozenset({"docker"})))
