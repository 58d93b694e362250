"""The middle of some repeats and how far it can be trusted."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

CONFIDENCE = 0.95
# The smallest n for which an order-statistic interval of the median reaches 95 %: 1 - 2/2^6 = 0.97.
N_FOR_INTERVAL = 6


@dataclass(frozen=True, slots=True)
class Spread:
    """Samples with their median and either a 95 % interval of it or, for few samples, the range."""

    samples: tuple[float, ...]
    median: float
    low: float
    high: float
    coverage: float | None

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.samples)

    @property
    def kind(self) -> str:
        """What `low` and `high` are: a reader must not take a range for an interval."""
        return "95 %" if self.coverage is not None else f"range, n = {self.n}"

    @property
    def half_width(self) -> float | None:
        """Half the interval as a share of the median; None where there is only a range."""
        if self.coverage is None or self.median <= 0:
            return None
        return (self.high - self.low) / 2 / self.median


def spread(samples: Iterable[float]) -> Spread:
    """Median with a distribution-free 95 % interval for n ≥ 6, else with the range.

    The interval runs from the k-th smallest to the k-th largest sample, k being the largest with
    1 - 2·P(Binomial(n, ½) < k) ≥ 0.95; its exact coverage is kept. No normality is assumed.
    Source: Hahn & Meeker, Statistical Intervals (1991), 5.2; Hoefler & Belli, SC'15, rule 6.
    The range below n = 6 is the project's rule for tables (no interval reaches 95 % there).
    """
    ordered = tuple(sorted(samples))
    if not ordered:
        raise ValueError("a spread needs at least one sample")
    rank, coverage = _rank(len(ordered))
    return Spread(ordered, median(ordered), ordered[rank - 1], ordered[-rank], coverage)


def median(samples: Iterable[float]) -> float:
    """The middle sample, or the mean of the two middle ones."""
    ordered = sorted(samples)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def _rank(n: int) -> tuple[int, float | None]:
    if n < N_FOR_INTERVAL:
        return 1, None
    best, coverage, below = 1, 0.0, 0.0
    for k in range(1, n // 2 + 1):
        below += math.comb(n, k - 1) / 2**n  # P(Binomial(n, ½) < k)
        if 1 - 2 * below < CONFIDENCE:
            break
        best, coverage = k, 1 - 2 * below
    return best, coverage
