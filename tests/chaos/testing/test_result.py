"""What tests may ask a result."""

from __future__ import annotations

import pytest

from chaos.testing.result import NotRecovered
from tests.chaos.testing.results import FAULT, result, scenario


def test_a_recovered_run() -> None:
    found = result()
    assert found.assert_recovered(within_s=0.5) is found
    assert (found.verdict, found.as_expected, len(found.recoveries), len(found.faults)) == (
        "PASS",
        True,
        1,
        1,
    )


def test_the_worst_verdict_counts() -> None:
    found = result(scenario(), scenario("INCONCLUSIVE"), scenario("VIOLATED", name="bad"))
    assert found.verdict == "VIOLATED"
    assert found.first.verdict == "INCONCLUSIVE"


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (
            result(scenario("VIOLATED")),
            "test_x: VIOLATED: replicas_agree: they differ\nreplay: torch-chaos replay p",
        ),
        (
            result(scenario("INCONCLUSIVE", reason="f1 never fired")),
            "test_x: INCONCLUSIVE: f1 never fired\n*",
        ),
        (result(scenario(faults=[])), "test_x: no fault was planned, so nothing had to recover"),
    ],
)
def test_what_has_not_recovered_says_why(found: object, told: str) -> None:
    with pytest.raises(NotRecovered) as failed:
        found.assert_recovered()  # type: ignore[attr-defined]
    assert str(failed.value).startswith(told.rstrip("*"))


def test_a_late_recovery_is_one() -> None:
    with pytest.raises(NotRecovered, match=r"a recovery from crash took 0\.200 s, the test allows 0\.1 s"):
        result().assert_recovered(within_s=0.1)


def test_a_quiet_scenario_beside_others_needs_no_fault() -> None:
    result(scenario(), scenario(faults=[], recoveries=[])).assert_recovered()
    assert FAULT["fired"]
