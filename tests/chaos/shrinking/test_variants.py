from __future__ import annotations

from typing import Any

import pytest

from chaos.plan import PlannedScenario
from chaos.shrinking.variants import Known, Variant, parts, smaller, with_faults
from injectors.catalogue import CATALOGUE
from tests.chaos.shrinking.planned import kill, scenario_of


def known(scenario: PlannedScenario) -> Known:
    return Known.of(scenario, CATALOGUE, {})


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        ("", []),
        ("a", []),
        ("ab", ["a", "b"]),
        ("abc", ["ab", "c", "bc", "ac"]),
        ("abcd", ["ab", "cd", "bcd", "acd", "abd", "abc"]),
        ("abcdefgh", ["abcd", "efgh", "cdefgh", "abefgh", "abcdgh", "abcdef"]),
    ],
)
def test_halves_then_all_but_a_part(ids: str, kept: list[str]) -> None:
    found = ["".join(part) for part in parts(list(ids))]
    assert found[: len(kept)] == kept
    assert all(ids.replace(one, "", 1) in found for one in ids if len(ids) > 1)
    assert len(set(found)) == len(found)
    assert "" not in found


def test_the_greatest_saving_comes_first() -> None:
    scenario = scenario_of([kill(3), {**kill(role="replacement"), "when": {"event": "recovery.transfer"}}])
    changes = [variant.change for variant in smaller(Variant(scenario), known(scenario))]
    assert changes == [
        "only f1",
        "only f2",
        "2 ranks",
        "3 ranks",
        "no spare",
        "the first fault at step 3",
        "the first fault at step 10",
        "30 steps",
        "35 steps",
        "f1 on rank 0",
    ]


def test_keys_are_unique_and_the_original_is_untouched() -> None:
    scenario = scenario_of([kill(3), kill(1, 25, id="b"), kill(2)])
    before = repr(scenario)
    found = list(smaller(Variant(scenario), known(scenario)))
    assert len({variant.key for variant in found}) == len(found)
    assert all(variant.scenario != scenario for variant in found)
    assert repr(scenario) == before


def test_a_fault_that_followed_one_that_is_gone_takes_its_moment() -> None:
    def later(after: str, name: str) -> dict[str, Any]:
        when = {"after_fault": after, "after_s": "50ms"}
        return {"id": name, "fault": "process.stop", "where": {"rank": 2}, "when": when, "for": "1s"}

    scenario = scenario_of([kill(1, id="a"), later("a", "b"), later("b", "c")])
    assert with_faults(scenario, ["f2", "f3"], known(scenario)).faults[0].when == {
        "step": 20,
        "phase": "backward",
    }
    (alone,) = with_faults(scenario, ["f3"], known(scenario)).faults
    assert alone.when == {"step": 20, "phase": "backward"}
    (timed, *_) = with_faults(
        scenario_of([{**kill(1, id="a"), "when": {"after_s": 2.0}}, later("a", "b")]), ["f2"], known(scenario)
    ).faults
    assert timed.when == {"after_s": 2.05}
    assert with_faults(scenario, ["f1", "f2"], known(scenario)).faults[1].when["after_fault"] == "f1"


def test_the_number_of_recoveries_follows_the_faults() -> None:
    def recoveries(kept: list[str], **more: Any) -> int | None:
        scenario = scenario_of([kill(1), kill(2, 25), kill(3, 30)], **more)
        return with_faults(scenario, kept, known(scenario)).recoveries

    assert recoveries(["f1", "f3"]) == 2
    # Stated: two of the three are healed together, and nobody says which.
    assert recoveries(["f1", "f3"], recoveries=2) is None
    assert recoveries(["f1", "f2", "f3"], recoveries=2) == 2
    assert recoveries(["f1"], recoveries=0) == 0
    foreign = scenario_of([kill(1)], target=None)
    assert with_faults(foreign, ["f1"], known(foreign)).recoveries == 1
