"""Wilcoxon's signed-rank test, exact, and the shift that goes with it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from savemark.stats.spread import median


def signed_rank(differences: Sequence[float]) -> float:
    """Exact one-sided p: the differences are no larger than zero; zeros are left out.

    Each difference keeps its sign or loses it with the same chance if the two sides are
    exchangeable, which turns in a random order make them, whatever the noise is like. With ties the
    midranks are permuted (Wilcoxon 1945; Lehmann, Nonparametrics (1975), 3.1 and 3.2).
    """
    values = [x for x in differences if x]
    if not values:
        return 1.0
    ranks = _doubled_midranks([abs(x) for x in values])
    seen = sum(rank for rank, x in zip(ranks, values, strict=True) if x > 0)
    # How many of the 2^n choices of signs reach each sum.
    ways = [1]
    for rank in ranks:
        longer = ways + [0] * rank
        for total, count in enumerate(ways):
            longer[total + rank] += count
        ways = longer
    return sum(ways[seen:]) / float(2 ** len(values))


def smallest_signed_p(n: int) -> float:
    """The smallest one-sided p that n differences can reach: all of one sign."""
    return 0.5**n


def shift(differences: Sequence[float], confidence: float) -> tuple[float, float, float]:
    """The Hodges-Lehmann shift and its interval, from the means of all pairs of differences.

    The interval is the widest there is where n is too small for `confidence` (below 6 for 95 %).
    """
    n = len(differences)
    means = sorted((a + b) / 2 for a, b in itertools.combinations_with_replacement(differences, 2))
    ways = [1]
    for rank in range(1, n + 1):
        longer = ways + [0] * rank
        for total, count in enumerate(ways):
            longer[total + rank] += count
        ways = longer
    cut, below = 0, ways[0]
    while below / 2**n <= (1 - confidence) / 2:
        cut += 1
        below += ways[cut]
    outer = max(cut - 1, 0)
    return median(means), means[outer], means[len(means) - 1 - outer]


def _doubled_midranks(values: Sequence[float]) -> list[int]:
    return [2 * sum(y < x for y in values) + sum(y == x for y in values) + 1 for x in values]
