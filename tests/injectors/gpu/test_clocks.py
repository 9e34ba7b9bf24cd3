from __future__ import annotations

import pytest

from injectors.gpu.clocks import APPLICATION_SETTING, IDLE, Sight, Whose, choose, holds, is_locked, whose

THERMAL = 0x40


@pytest.mark.parametrize(
    ("sight", "locked"),
    [
        (Sight(1980, 1980, 0), False),
        (Sight(345, 1980, IDLE), False),
        (Sight(1200, 1980, THERMAL), False),
        (Sight(1965, 1980, 0), False),
        (Sight(990, 1980, 0), True),
        (Sight(1950, 1980, 0), True),
        (Sight(1980, 1980, APPLICATION_SETTING), True),
    ],
)
def test_a_low_clock_without_a_reason_is_a_lock(sight: Sight, locked: bool) -> None:
    assert is_locked(sight) is locked


@pytest.mark.parametrize(
    ("sight", "expected"),
    [
        (Sight(990, 1980, 0), Whose.OURS),
        (Sight(1005, 1980, 0), Whose.OURS),
        (Sight(1200, 1980, 0), Whose.SOMEBODY_ELSES),
        (Sight(600, 1980, 0), Whose.SOMEBODY_ELSES),
        (Sight(1980, 1980, 0), Whose.NOBODYS),
        (Sight(345, 1980, IDLE), Whose.HIDDEN),
        (Sight(600, 1980, THERMAL), Whose.HIDDEN),
        (Sight(1200, 1980, THERMAL), Whose.NOBODYS),
    ],
)
def test_the_clock_says_whose_lock_it_is(sight: Sight, expected: Whose) -> None:
    assert whose(sight, 990) is expected


def test_a_reading_may_lie_a_step_beside_what_was_set() -> None:
    assert holds(Sight(1005, 1980, 0), 990)
    assert not holds(Sight(1006, 1980, 0), 990)


@pytest.mark.parametrize(
    ("supported", "share", "chosen"),
    [
        ([1980, 1965, 990, 975], 0.5, 990),
        ([1980, 1965, 975], 0.5, 975),
        ([1980, 1200], 0.5, 1200),
        ([], 0.5, 990),
    ],
)
def test_the_clock_to_lock_to_is_one_that_the_device_has(
    supported: list[int], share: float, chosen: int
) -> None:
    assert choose(supported, 1980, share) == chosen
