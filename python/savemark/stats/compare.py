"""Whether a difference between two samples can be chance."""

from __future__ import annotations

import itertools
import math
from bisect import bisect
from collections.abc import Sequence
from functools import lru_cache

# Repeats of each side up to which the distribution is computed.
EXACT_UP_TO = 100


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> float:
    """Exact two-sided p of the Mann-Whitney U test; with ties, the exact permutation of midranks.

    Mann & Whitney 1947; the permutation version for ties is Lehmann, Nonparametrics (1975), 1.4.
    Above 100 repeats each, and for many ties, the normal approximation, which is as good there.
    """
    return _mann_whitney(tuple(a), tuple(b))


# The page, its Markdown, the checks and the figures all ask who leads: each pair is tested once.
@lru_cache(maxsize=2**14)
def _mann_whitney(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    if len(set(a) | set(b)) < len(a) + len(b):
        return _permuted(a, b)
    if max(len(a), len(b)) > EXACT_UP_TO:
        return _approximate(a, b)
    ordered = sorted(b)
    u = sum(bisect(ordered, x) for x in a)
    chances = _chances(*sorted((len(a), len(b))))
    # The distribution is symmetric: one tail, from its end up to U or its mirror, counts twice.
    return min(1.0, 2 * chances[min(u, len(a) * len(b) - u)])


@lru_cache
def _chances(n: int, m: int) -> list[float]:
    """P(U ≤ u) for u = 0, 1, …: how many of the orders of n and m values have so many inversions.

    The counts are those of f(n, m, u) = f(n - 1, m, u - m) + f(n, m - 1, u) (Mann & Whitney 1947).
    """
    import numpy as np

    # counts[j] is f(i, j, ·); row i is made from row i - 1 in place.
    counts = [np.eye(1, n * m + 1)[0] for _ in range(m + 1)]
    for _ in range(n):
        counts[0] = np.eye(1, n * m + 1)[0]
        for j in range(1, m + 1):
            shifted = np.zeros(n * m + 1)
            shifted[j:] = counts[j][: n * m + 1 - j]
            counts[j] = shifted + counts[j - 1]
    found = np.cumsum(counts[m]) / math.comb(n + m, n)
    return [float(chance) for chance in found]


def _approximate(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    # SciPy takes most of a second to import and few runs get here.
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(a, b, alternative="two-sided", method="asymptotic").pvalue)


def holm(p_values: Sequence[float], weights: Sequence[float] | None = None) -> list[float]:
    """Holm's step-down adjusted p values, in the order given (Holm 1979).

    `weights` say which shares of the error the hypotheses get; equal ones unless given.
    """
    given = weights or [1.0] * len(p_values)
    order = sorted(range(len(p_values)), key=lambda i: p_values[i] / given[i])
    adjusted, running = [0.0] * len(p_values), 0.0
    for step, i in enumerate(order):
        left = sum(given[j] for j in order[step:])
        running = max(running, min(1.0, left * p_values[i] / given[i]))
        adjusted[i] = running
    return adjusted


def _permuted(a: Sequence[float], b: Sequence[float]) -> float:
    pooled = [*a, *b]
    ranks = [
        sum(other < x for other in pooled) + (sum(other == x for other in pooled) + 1) / 2
        for x in pooled
    ]
    centre = len(a) * (len(pooled) + 1) / 2
    seen = abs(sum(ranks[: len(a)]) - centre)
    if math.comb(len(pooled), len(a)) > 200_000:  # too many to walk through
        return _approximate(tuple(a), tuple(b))
    sums = (sum(chosen) for chosen in itertools.combinations(ranks, len(a)))
    far, total = 0, 0
    for value in sums:
        total += 1
        far += abs(value - centre) >= seen - 1e-9
    return far / total
