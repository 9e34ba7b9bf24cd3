from __future__ import annotations

from typing import Any

import pytest

from chaos.plan import PlannedFault
from chaos.shrinking.plainer import plainer
from chaos.suite.params import joint_problem
from injectors.catalogue import CATALOGUE
from tests.chaos.shrinking.planned import scenario_of


def fault_of(name: str, where: dict[str, Any], when: dict[str, Any], **more: Any) -> PlannedFault:
    return scenario_of([{"fault": name, "where": where, "when": when, **more}]).faults[0]


def changes(fault: PlannedFault, rank: int | None = None) -> dict[str, PlannedFault]:
    return dict(plainer(fault, CATALOGUE[fault.name], rank))


def test_a_role_becomes_the_rank_that_it_was_and_a_rank_the_first() -> None:
    fault = fault_of("process.kill", {"role": "replacement"}, {"event": "recovery.transfer"})
    assert changes(fault) == {}
    assert changes(fault, 2)["on rank 2"].where == {"rank": 2}
    assert list(changes(fault_of("process.kill", {"rank": 2}, {"step": 5}))) == ["on rank 0"]
    assert changes(fault_of("process.kill", {"rank": 0}, {"step": 5})) == {}


def test_moments() -> None:
    again = fault_of("process.kill", {"rank": 0}, {"event": "recovery.transfer", "occurrence": 3})
    assert changes(again)["at the first occurrence"].when == {"event": "recovery.transfer", "occurrence": 1}
    when = {"step": 5, "collective": {"op": "all_reduce", "nth": 2}}
    found = changes(fault_of("collective.error", {"rank": 0}, when))
    assert found["at the first collective"].when["collective"] == {"op": "all_reduce", "nth": 1}
    assert found["at a collective of any op"].when["collective"] == {"nth": 2}
    timed = changes(fault_of("process.kill", {"rank": 0}, {"after_s": 0.5}))
    assert [fault.when["after_s"] for fault in timed.values()] == [0.0, 0.25]
    assert changes(fault_of("process.kill", {"rank": 0}, {"after_s": 0.1})) == {}


def test_durations_and_magnitudes() -> None:
    stop = fault_of("process.stop", {"rank": 0}, {"step": 5}, **{"for": "5s"})
    found = changes(stop)
    assert list(found) == ["duration_s 500ms", "duration_s 2.5s"]
    shorter = found["duration_s 500ms"]
    assert (shorter.duration_s, shorter.params["duration_s"]) == (0.5, 0.5)
    scale = fault_of("numeric.scale", {"rank": 0}, {"step": 5, "phase": "optimizer"})
    assert [fault.params["factor"] for fault in changes(scale).values()] == [100.0, 500.0]
    assert changes(fault_of("process.stop", {"rank": 0}, {"step": 5}, **{"for": "150ms"})) == {}


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_whatever_is_made_of_a_fault_is_allowed(name: str) -> None:
    """Of a fault with the largest values that it takes."""
    kind = CATALOGUE[name]
    params = {
        one.name: float(min(one.maximum or 1e4, 1e4)) if one.kind == "float" else one.default
        for one in kind.parameters()
    }
    fault = PlannedFault(
        "f1", name, {"rank": 1}, {"step": 3}, False, params, params.get("duration_s"), 1, None, True
    )
    for change, smaller in plainer(fault, kind, None):
        assert joint_problem(kind, smaller.params) is None, change
        assert smaller != fault
