from __future__ import annotations

import pytest

from chaos.report.course import Course, about


def test_nothing_is_known_before_the_first_is_over() -> None:
    assert Course([10, 20]).left_s(5.0) is None


def test_scenarios_are_expected_to_take_as_long_as_their_steps() -> None:
    course = Course([10, 20, 40], took_s=[5.0])
    # Half a second a step: 10 s and 20 s, of which the present one has had 4 s.
    assert course.left_s(4.0) == pytest.approx(26.0)


def test_without_steps_each_is_expected_to_take_the_mean() -> None:
    assert Course([10, None, None], took_s=[4.0, 8.0]).left_s(1.0) == pytest.approx(5.0)


def test_one_that_takes_longer_than_expected_owes_nothing_to_the_others() -> None:
    assert Course([10, 10, 10], took_s=[2.0]).left_s(60.0) == pytest.approx(2.0)


def test_after_the_last_nothing_is_left() -> None:
    assert Course([10], took_s=[2.0]).left_s(0.0) == 0.0


def test_a_time_for_people() -> None:
    assert [about(left) for left in (None, 0.2, 41.6, 600.0)] == [
        *("", "about 1 s left", "about 42 s left", "about 10 min left"),
    ]
