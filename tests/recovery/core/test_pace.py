from __future__ import annotations

from recovery.core.config import Config
from recovery.core.pace import StepTimes, pace_of


def paces(*steps: float) -> list[float]:
    times = StepTimes()
    return [times.add(step_s) for step_s in steps]


def test_two_slow_steps_are_not_the_pace() -> None:
    assert paces(0.1, 0.1, 0.1, 1.5, 1.6, 0.1)[3:] == [0.1, 0.1, 0.1]


def test_three_slow_steps_are_the_new_pace_and_three_fast_ones_again() -> None:
    assert paces(0.1, 0.1, 0.1, 0.1, 0.1, 2.0, 2.0, 2.0)[-3:] == [0.1, 0.1, 2.0]
    assert paces(2.0, 2.0, 2.0, 2.0, 2.0, 0.1, 0.1, 0.1)[-3:] == [2.0, 2.0, 0.1]


def test_a_first_step_that_compiles_does_not_count_once_there_is_another() -> None:
    assert paces(30.0, 0.1, 0.2)[1:] == [0.1, 0.2]


def test_a_hang_limit_follows_the_pace_of_most_ranks() -> None:
    config = Config(world_size=3, hang_min_s=1.0, hang_factor=8.0)
    pace = pace_of([0.5, 0.5, 9.0])
    assert pace == 0.5
    assert config.hang_limit_s(pace, warm=True) == 4.0


def test_no_warm_rank_no_pace() -> None:
    assert pace_of([]) is None
