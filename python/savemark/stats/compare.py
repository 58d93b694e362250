"""Which settings the repeats can tell apart from the fastest one."""

from __future__ import annotations

import itertools
import math
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from savemark.stats.repeats import ALPHA, repeats_needed

# Repeats of each side up to which the distribution is computed.
EXACT_UP_TO = 100
# A cost decides only between settings whose medians are so near to the best one (our choice): that
# repeats cannot tell two apart does not make them equal (Altman & Bland, BMJ 311, 1995, 485).
NEAR = 1.05


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


@dataclass(frozen=True, slots=True)
class Group:
    """The best of some settings, what cannot be told from it, and by which rule.

    `near` are the best and those of the tied whose medians are at most 5 % above its own.
    """

    best: int
    tied: tuple[int, ...]
    near: tuple[int, ...]
    tested: bool
    needed: int
    p_adjusted: tuple[float | None, ...]


def group_of_best(samples: Sequence[Sequence[float]], medians: Sequence[float]) -> Group:
    """The best (smallest median) and everything that is not shown to be slower than it.

    Rule. With enough repeats (`repeats_needed`), a setting is out of the group if its exact
    Mann-Whitney p against the best, Holm-corrected over all of them, is below 0.05 (HC-18;
    Hoefler & Belli, SC'15, rule 7). With fewer, no such test can succeed, so no significance is
    claimed: a setting is out of the group only if its every repeat was slower than every repeat
    of the best, that is, if the ranges do not overlap. That is the strongest order these data
    can show, and the wording must say that it is not a test (HC-17).
    """
    best = min(range(len(samples)), key=lambda i: medians[i])
    others = [i for i in range(len(samples)) if i != best]
    needed = repeats_needed(len(others))
    tested = all(len(each) >= needed for each in samples)
    p_adjusted: list[float | None] = [None] * len(samples)
    if tested and others:
        p_values = [mann_whitney(samples[i], samples[best]) for i in others]
        for i, p in zip(others, holm(p_values), strict=True):
            p_adjusted[i] = p
        tied = [i for i in others if (p_adjusted[i] or 0.0) >= ALPHA]
    else:
        tied = [i for i in others if min(samples[i]) <= max(samples[best])]
    tied.sort(key=lambda i: medians[i])
    near = [best, *(i for i in tied if medians[i] <= NEAR * medians[best])]
    return Group(best, tuple(tied), tuple(near), tested and bool(others), needed, tuple(p_adjusted))


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
