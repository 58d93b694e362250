"""Whether values drift in the order in which they were taken."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from savemark.stats.spread import median

# Above this the normal approximation is good to the third digit (Kendall 1975) and exact is slow.
N_EXACT = 50


@dataclass(frozen=True, slots=True)
class Trend:
    """Kendall's S, its two-sided p, and Sen's slope in units of the values per step."""

    s: int
    p: float
    slope: float


def mann_kendall(values: Sequence[float]) -> Trend:
    """Test `values`, in the order in which they were taken, for a monotone trend.

    S counts the pairs that rise less those that fall. Without ties and up to 50 values p comes
    from the exact distribution of S, else from the normal one with the correction for ties and
    for continuity. Sources: Mann, Econometrica 13 (1945) 245; Kendall, Rank Correlation Methods
    (1975); the slope: Sen, JASA 63 (1968) 1379. Fewer than 4 values cannot reach p < 0.05.
    """
    n = len(values)
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    s = sum((values[j] > values[i]) - (values[j] < values[i]) for i, j in pairs)
    slope = median([(values[j] - values[i]) / (j - i) for i, j in pairs]) if pairs else 0.0
    exact = n <= N_EXACT and len(set(values)) == n
    return Trend(s, _exact(n, s) if exact else _normal(values, s), slope)


def _exact(n: int, s: int) -> float:
    """Return P(|S| ≥ |s|): S of a random order, from the count of orders by inversions."""
    counts = [1]
    for size in range(2, n + 1):  # inserting the size-th value adds 0 to size - 1 inversions
        longer = [0] * (len(counts) + size - 1)
        for inversions, count in enumerate(counts):
            for added in range(size):
                longer[inversions + added] += count
        counts = longer
    top = len(counts) - 1  # S = top - 2 · inversions
    far = sum(count for k, count in enumerate(counts) if abs(top - 2 * k) >= abs(s))
    return far / math.factorial(n)


def _normal(values: Sequence[float], s: int) -> float:
    def weight(n: int) -> int:
        return n * (n - 1) * (2 * n + 5)

    ties = sum(weight(count) for count in Counter(values).values())
    variance = (weight(len(values)) - ties) / 18
    if variance <= 0 or s == 0:
        return 1.0
    return math.erfc((abs(s) - 1) / math.sqrt(variance) / math.sqrt(2))
