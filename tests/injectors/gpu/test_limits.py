from __future__ import annotations

import pytest

from injectors.gpu.limits import Whose, same, target_mw, whose


@pytest.mark.parametrize(
    ("now", "expected"),
    [(200000, Whose.OURS), (200999, Whose.OURS), (700000, Whose.AS_BEFORE), (350000, Whose.SOMEBODY_ELSES)],
)
def test_the_limit_says_whose_it_is(now: int, expected: Whose) -> None:
    assert whose(now, set_mw=200000, before_mw=700000) is expected


def test_two_limits_within_a_watt_are_one() -> None:
    assert same(200000, 200999)
    assert not same(200000, 201000)


@pytest.mark.parametrize(
    ("low", "default", "share", "expected"),
    [
        (200000, 700000, 0.0, 200000),
        (200000, 700000, 0.5, 450000),
        (100500, 700000, 0.0, 101000),
        (700000, 700000, 0.0, None),
        (699500, 700000, 0.5, None),
    ],
)
def test_the_target_lies_between_the_lowest_and_the_default(
    low: int, default: int, share: float, expected: int | None
) -> None:
    assert target_mw(low, default, share) == expected
