"""How many repeats a claim needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, pstdev

from savemark.stats.spread import CONFIDENCE, N_FOR_INTERVAL

ALPHA = 0.05
# Standard error of the median over that of the mean, normal values: √(π/2).
MEDIAN_COST = math.sqrt(math.pi / 2)


def smallest_p(n: int, m: int) -> float:
    """The smallest two-sided p that an exact Mann-Whitney test of n against m can reach.

    Complete separation is one arrangement of C(n+m, n), and its mirror image is another.
    n = 3: 0.10, n = 5: 0.0079, n = 6: 0.0022. (Mann & Whitney 1947.)
    """
    return min(1.0, 2 / math.comb(n + m, n))


def repeats_needed(comparisons: int, alpha: float = ALPHA) -> int:
    """Repeats per setting with which `comparisons` tests against the best can succeed at all.

    Holm's first step asks p ≤ alpha / comparisons; below this n it cannot be met, however clear
    the difference (check HC-17). One of 20: n = 6.
    """
    n = 2
    while smallest_p(n, n) > alpha / max(comparisons, 1):
        n += 1
    return n


def repeats_for_width(samples: Sequence[float], half_width: float) -> int | None:
    """Repeats with which the interval of the median is about ± `half_width` (0.03 is 3 %).

    From the spread of the logarithms seen so far and the standard error of a median,
    1.2533·σ/√n; at least 6, below which no interval reaches 95 %. None for fewer than 3 samples:
    their spread says nothing. The plan for means of Hoefler & Belli, SC'15, 4.2.2, for a median.
    """
    if len(samples) < 3 or min(samples) <= 0:
        return None
    sigma = log_deviation(samples)
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    return max(N_FOR_INTERVAL, math.ceil((z * MEDIAN_COST * sigma / half_width) ** 2))


def repeats_to_find(loss: float, sigma: float, comparisons: int = 1, power: float = 0.9) -> int:
    """Repeats per side with which a Mann-Whitney test finds a loss with the given power.

    `loss` 0.1 is a time 10 % longer, `sigma` the standard deviation of the logarithms of times.
    Two-sided level 0.05 over `comparisons` (Bonferroni, the first step of Holm). Source: Noether,
    JASA 82 (1987) 645, for two samples of equal size; a few too many where the loss is large.
    """
    normal = NormalDist()
    ahead = normal.cdf(math.log1p(loss) / (sigma * math.sqrt(2)))
    quantiles = normal.inv_cdf(1 - ALPHA / comparisons / 2) + normal.inv_cdf(power)
    n = quantiles**2 / (6 * (ahead - 0.5) ** 2)
    return max(repeats_needed(comparisons), math.ceil(n))


def log_deviation(samples: Sequence[float]) -> float:
    """Standard deviation of the natural logarithms (n - 1): about the coefficient of variation."""
    logs = [math.log(x) for x in samples]
    return pstdev(logs) * math.sqrt(len(logs) / (len(logs) - 1)) if len(logs) > 1 else 0.0
