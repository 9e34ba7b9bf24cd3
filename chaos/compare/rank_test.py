"""Whether one set of times is larger than another, by ranks alone. Pure.

The test is that of Mann and Whitney, extended to strata: times are compared only within their own stratum
(one scenario), and the counts of all strata are added up. With one stratum it is the ordinary test; with
strata of one value on each side it is the sign test. So ten repeats of one scenario and one run of many
scenarios are judged by the same rule.

Sources:

- H. B. Mann and D. R. Whitney, "On a test of whether one of two random variables is stochastically larger
  than the other", Annals of Mathematical Statistics 18 (1947): U, and its exact distribution by counting.
- M. Pagano and D. Tritchler, "On obtaining permutation distributions in polynomial time", Journal of the
  American Statistical Association 78 (1983): the same count with ties, over sums of mid-ranks.
- E. L. Lehmann, "Nonparametrics: Statistical Methods Based on Ranks" (1975): the variance with ties, and sums
  over strata.
- R. E. Tarone, "A modified Bonferroni method for discrete data", Biometrics 46 (1990): `fair_limit`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from math import comb, prod, sqrt
from statistics import NormalDist

EXACT_UP_TO = 40
"""Values in a stratum, and"""
EXACT_PAIRS = 2000
"""pairs in all, up to which p is counted. With more the normal approximation is right to the third digit."""

Stratum = tuple[Sequence[float], Sequence[float]]
"""The values before, and the values after."""


@dataclass(frozen=True)
class RankTest:
    """What the ranks say.

    Attributes:
        p: two-sided: how often chance alone would give a difference at least as clear.
        least_p: the smallest `p` that so many values could give at all.
        superiority: the effect size: the share of pairs (one before, one after, of one stratum) in which the
            later value is the larger one; ties count half. 0.5 is no difference, 1.0 is all of them.
        pairs: how many such pairs there are.
        exact: whether `p` was counted rather than approximated.
    """

    p: float
    least_p: float
    superiority: float
    pairs: int
    exact: bool


def rank_test(strata: Iterable[Stratum]) -> RankTest:
    """Compare the values after with those before. A stratum that lacks one side is left out."""
    usable = [(before, after) for before, after in strata if before and after]
    pairs = sum(len(before) * len(after) for before, after in usable)
    if not pairs:
        return RankTest(p=1.0, least_p=1.0, superiority=0.5, pairs=0, exact=True)
    won = sum(_doubled_u(before, after) for before, after in usable)
    exact = pairs <= EXACT_PAIRS and all(len(before) + len(after) <= EXACT_UP_TO for before, after in usable)
    p, least_p = _counted(usable, won) if exact else _approximated(usable, won)
    return RankTest(p=p, least_p=least_p, superiority=won / 2 / pairs, pairs=pairs, exact=exact)


def fair_limit(least: Sequence[float], alpha: float) -> float:
    """How small p must be when many tests are looked at, so that all of them together are wrong with `alpha`.

    Tests that could never be that small cannot be wrong, and so cost the other ones nothing (Tarone 1990).

    Args:
        least: each test's `least_p`.
        alpha: how often at least one test may speak up although nothing has changed, 0 to 1.
    """
    count = 1
    while sum(p <= alpha / count for p in least) > count:
        count += 1
    return alpha / count


def _doubled_u(before: Sequence[float], after: Sequence[float]) -> int:
    """Twice Mann and Whitney's U: 2 for each pair that the later value wins, 1 for a tie."""
    return sum(2 if b > a else 1 if b == a else 0 for a in before for b in after)


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Twice each value's mid-rank, so that ties stay whole numbers."""
    ranks: list[int] = []
    for _, equal in groupby(sorted(values)):
        count = len(list(equal))
        first = len(ranks) + 1
        ranks += [2 * first + count - 1] * count
    return ranks


def _counted(strata: Sequence[Stratum], won: int) -> tuple[float, float]:
    """p and the least p, by counting every way of sharing the values out."""
    everything = prod(comb(len(before) + len(after), len(after)) for before, after in strata)
    # A polynomial whose x**u has the number of ways to reach a doubled U of u, written as one whole number:
    # each coefficient has `bits` of its own. Then adding up strata is one multiplication.
    bits = everything.bit_length()
    ways = prod(_ways(_doubled_ranks([*before, *after]), len(after), bits) for before, after in strata)
    most = 2 * sum(len(before) * len(after) for before, after in strata)
    counts = [ways >> (u * bits) & ((1 << bits) - 1) for u in range(most + 1)]
    below, above = sum(counts[: won + 1]), sum(counts[won:])
    reached = [count for count in counts if count]
    return _two_sided(min(below, above), everything), _two_sided(min(reached[0], reached[-1]), everything)


def _two_sided(ways: int, everything: int) -> float:
    return min(1.0, float(Fraction(2 * ways, everything)))


def _ways(ranks: Sequence[int], chosen: int, bits: int) -> int:
    """In how many ways `chosen` of the doubled mid-ranks have which doubled U: a polynomial as a number."""
    # sums[k]: how many subsets of size k, of the ranks seen so far, have which sum.
    sums = [1] + [0] * chosen
    for seen, rank in enumerate(ranks, start=1):
        for size in range(min(seen, chosen), 0, -1):
            sums[size] += sums[size - 1] << (rank * bits)
    least = chosen * (chosen + 1)
    return sums[chosen] >> (least * bits)


def _approximated(strata: Sequence[Stratum], won: int) -> tuple[float, float]:
    """p by the normal distribution, with corrections for ties and for continuity; the least p likewise."""
    mean = variance = most = 0.0
    for before, after in strata:
        n, m = len(before), len(after)
        size = n + m
        ties = sum(count**3 - count for count in Counter([*before, *after]).values())
        mean += n * m / 2
        most += n * m
        variance += n * m / 12 * (size + 1 - ties / (size * (size - 1)))
    if variance <= 0.0:
        return 1.0, 1.0

    def p_of(distance: float) -> float:
        return min(1.0, 2 * NormalDist().cdf(-max(0.0, distance - 0.5) / sqrt(variance)))

    return p_of(abs(won / 2 - mean)), p_of(most - mean)
