"""The middle of some repeats and how far it can be trusted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

CONFIDENCE = 0.95
# The smallest n for which an order-statistic interval of the median reaches 95 %: 1 - 2/2^6 = 0.97.
N_FOR_INTERVAL = 6


@dataclass(frozen=True, slots=True)
class Spread:
    """Samples with their median and either an interval of it or, for few samples, the range.

    The samples are in the order given; `repeats` says which repeat each is of, where that is known.
    """

    samples: tuple[float, ...]
    median: float
    low: float
    high: float
    coverage: float | None
    confidence: float = CONFIDENCE  # that was asked for; the interval's coverage is no less
    repeats: tuple[int, ...] = ()

    @property
    def by_repeat(self) -> dict[int, float]:
        """The samples by repeat; by their place where no repeats are known."""
        return dict(zip(self.repeats or range(self.n), self.samples, strict=True))

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.samples)

    @property
    def kind(self) -> str:
        """What `low` and `high` are: a reader must not take a range for an interval."""
        return (
            f"{self.confidence * 100:g} %" if self.coverage is not None else f"range, n = {self.n}"
        )

    @property
    def half_width(self) -> float | None:
        """Half the interval as a share of the median; None where there is only a range."""
        if self.coverage is None or self.median <= 0:
            return None
        return (self.high - self.low) / 2 / self.median


def spread(
    samples: Iterable[float],
    confidence: float = CONFIDENCE,
    repeats: Sequence[int | None] = (),
) -> Spread:
    """Median with a distribution-free interval (95 % for n ≥ 6), for fewer samples with the range.

    The interval runs from the k-th smallest to the k-th largest sample, k being the largest with
    1 - 2·P(Binomial(n, ½) < k) ≥ `confidence`; its exact coverage is kept. No normality is assumed.
    Source: Hahn & Meeker, Statistical Intervals (1991), 5.2; Hoefler & Belli, SC'15, rule 6.
    The range below n = 6 is the project's rule for tables (no interval reaches 95 % there).
    """
    given = tuple(samples)
    ordered = sorted(given)
    if not ordered:
        raise ValueError("a spread needs at least one sample")
    rank, coverage = interval_rank(len(ordered), confidence)
    low, high = ordered[rank - 1], ordered[-rank]
    known = tuple(repeat for repeat in repeats if repeat is not None)
    unique = known if len(set(known)) == len(given) else ()
    return Spread(given, median(ordered), low, high, coverage, confidence, unique)


def speeds(
    amounts: Sequence[int], seconds: Sequence[float], repeats: Sequence[int | None] = ()
) -> Spread:
    """What repeats did per second: the middle one, and the interval (or range) it lies in.

    Of an even number of repeats the two middle ones' amounts are over their times, as speeds are
    never averaged (Hoefler & Belli, SC'15, rule 3). So repeats that did the same amount give that
    amount over their median time.
    """
    each = sorted(zip(amounts, seconds, strict=True), key=lambda one: one[0] / one[1])
    found = spread([n / s for n, s in zip(amounts, seconds, strict=True)], repeats=repeats)
    middle = each[(len(each) - 1) // 2 : len(each) // 2 + 1]
    speed = sum(n for n, _ in middle) / sum(s for _, s in middle)
    # The last digit may be rounded out of the range.
    return replace(found, median=min(max(speed, found.low), found.high))


def median(samples: Iterable[float]) -> float:
    """The middle sample, or the mean of the two middle ones."""
    ordered = sorted(samples)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def interval_rank(n: int, confidence: float = CONFIDENCE) -> tuple[int, float | None]:
    """Return k and the coverage of the interval of n samples; 1 and None where there is none."""
    # P(k ≤ Binomial(n, ½) ≤ n - k), exactly, from the middle outwards: some √n terms are enough.
    rank = n // 2
    ways = math.comb(n, rank)
    inside = ways * (1 + n % 2)
    while rank:
        coverage = inside / 2**n
        if coverage >= confidence:
            return rank, coverage
        ways = ways * rank // (n - rank + 1)
        rank -= 1
        inside += 2 * ways
    return 1, None
