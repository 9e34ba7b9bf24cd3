"""The rank test: against published values, and against trying every way of sharing the values out."""

from __future__ import annotations

import random
from itertools import combinations, product
from math import comb, prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.compare.rank_test import EXACT_UP_TO, Stratum, fair_limit, rank_test

Sample = list[float]


def u_of(before: Sample, after: Sample) -> float:
    return sum((b > a) + (b == a) / 2 for a in before for b in after)


def every_u(before: Sample, after: Sample) -> list[float]:
    """U for every way of choosing which of the values came after: what chance alone would give."""
    pool = before + after
    found = []
    for chosen in combinations(range(len(pool)), len(after)):
        rest = [pool[i] for i in range(len(pool)) if i not in chosen]
        found.append(u_of(rest, [pool[i] for i in chosen]))
    return found


def p_by_trying(strata: list[tuple[Sample, Sample]]) -> float:
    won = sum(u_of(*stratum) for stratum in strata)
    sums = [sum(parts) for parts in product(*(every_u(*stratum) for stratum in strata))]
    below, above = sum(u <= won for u in sums), sum(u >= won for u in sums)
    return min(1.0, 2 * min(below, above) / len(sums))


@pytest.mark.parametrize(
    ("before", "after", "p"),
    [
        # The tables of Mann and Whitney (1947), doubled for two sides.
        ([1, 2, 3], [4, 5, 6], 0.100),
        ([1, 2, 3], [1.5, 4, 5], 0.400),
        ([1, 2, 3, 4], [5, 6, 7, 8], 0.029),
        ([1, 2, 3, 4, 5], [4.5, 5.5, 6, 7, 8], 0.016),
        ([4.5, 5.5, 6, 7, 8], [1, 2, 3, 4, 5], 0.016),
    ],
)
def test_published_values(before: Sample, after: Sample, p: float) -> None:
    found = rank_test([(before, after)])
    assert found.exact
    assert found.p == pytest.approx(p, abs=0.0005)


TIMES = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(TIMES, TIMES), min_size=1, max_size=2))
def test_the_count_is_that_of_trying_everything(strata: list[tuple[Sample, Sample]]) -> None:
    found = rank_test(strata)
    assert found.exact
    assert found.p == pytest.approx(p_by_trying(strata))
    assert found.least_p <= found.p
    assert found.superiority == pytest.approx(
        sum(u_of(*one) for one in strata) / sum(len(a) * len(b) for a, b in strata)
    )


def test_strata_of_one_value_each_are_the_sign_test() -> None:
    strata: list[Stratum] = [([float(n)], [n + 0.5]) for n in range(8)]
    assert rank_test(strata).p == 2 / 2**8
    assert rank_test([*strata, ([9.0], [8.0])]).p == pytest.approx(2 * (1 + 9) / 2**9)


def test_the_least_p_is_what_no_data_can_undercut() -> None:
    sides = [([1.0, 2.0, 3.0], [4.0, 5.0]), ([1.0], [2.0, 3.0])]
    found = rank_test(sides)
    assert found.p == found.least_p == 2 / prod(comb(len(a) + len(b), len(a)) for a, b in sides)


def test_the_approximation_meets_the_count() -> None:
    rng = random.Random(4)
    for shift in (0.0, 0.3, 0.8):
        before = [rng.gauss(0, 1) for _ in range(12)]
        after = [rng.gauss(shift, 1) for _ in range(12)]
        counted = rank_test([(before, after)])
        # A stratum whose values say nothing either way is too large to be counted.
        empty: Stratum = ([1.0] * EXACT_UP_TO, [1.0])
        approximated = rank_test([(before, after), empty])
        assert (counted.exact, approximated.exact) == (True, False)
        assert approximated.p == pytest.approx(counted.p, abs=0.01)


def test_nothing_to_compare_is_no_difference() -> None:
    for strata in ([], [([], [1.0])], [([1.0], [])]):
        found = rank_test(strata)
        assert (found.p, found.least_p, found.superiority, found.pairs) == (1.0, 1.0, 0.5, 0)
    same = rank_test([([0.0] * 30, [0.0] * 30)])
    assert (same.p, same.superiority, same.exact) == (1.0, 0.5, False)


def test_many_tests_share_the_alpha_and_powerless_ones_cost_nothing() -> None:
    assert fair_limit([], 0.01) == 0.01
    assert fair_limit([0.5] * 100, 0.01) == 0.01
    assert fair_limit([1e-6] * 5, 0.01) == pytest.approx(0.01 / 5)
    assert fair_limit([1e-6] * 5 + [0.5] * 100, 0.01) == pytest.approx(0.01 / 5)
    # Two could pass 0.01 / 1 but not 0.01 / 2: with k = 2 only one is left that could be wrong.
    assert fair_limit([0.006, 0.001], 0.01) == pytest.approx(0.01 / 2)
