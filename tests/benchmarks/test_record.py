"""The interval that the benchmarks report: right for a known ratio, honest about noise."""

from __future__ import annotations

import random

from tests.benchmarks import record


def noisy_pairs(ratio: float, noise: float, count: int) -> list[tuple[float, float]]:
    rng = random.Random(5)
    return [(10 * ratio * rng.gauss(1, noise), 10 * rng.gauss(1, noise)) for _ in range(count)]


def test_equal_arms_differ_by_nothing() -> None:
    assert record.ratio_interval([(2.0, 2.0)] * 5, seed=1) == (1.0, 1.0, 1.0)


def test_the_interval_holds_the_true_ratio_and_widens_with_noise() -> None:
    _, low, high = record.ratio_interval(noisy_pairs(1.02, 0.02, 40), seed=1)
    assert low < 1.02 < high
    _, low_noisy, high_noisy = record.ratio_interval(noisy_pairs(1.02, 0.2, 40), seed=1)
    assert high_noisy - low_noisy > 3 * (high - low)


def test_the_same_seed_gives_the_same_interval() -> None:
    pairs = noisy_pairs(1.1, 0.1, 20)
    assert record.ratio_interval(pairs, seed=3) == record.ratio_interval(pairs, seed=3)


def test_a_row_reads_without_with_difference() -> None:
    row = record.comparison("wall", [(11.0, 10.0), (11.0, 10.0)], (1.1, 1.05, 1.15))
    assert row == "| wall | 10.00 (10.00) | 11.00 (11.00) | +10.0 % (+5.0 to +15.0) |"
