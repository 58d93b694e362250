"""Whether, and after which value, the level of a series changed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from savemark.stats.spread import median

ORDERS = 4000  # of a long series that are tried; the smallest p is then 1/4001
N_ALL = 7  # up to so many values every order is tried: 7! = 5040
SEED = 1979


@dataclass(frozen=True, slots=True)
class Change:
    """The likeliest change: the first `after` values differ most in level from the rest."""

    after: int
    before_median: float
    after_median: float
    statistic: float
    p: float


def change_point(values: Sequence[float]) -> Change | None:
    """Pettitt's test for one change of level at an unknown place; None below 4 values.

    K = max over t of |Σ_{i≤t} Σ_{j>t} sign(x_j - x_i)|, which needs ranks only. Its p is found by
    permutation (all orders up to 7 values, else 4000 random ones from a fixed seed), for the
    usual 2·exp(-6K²/(n³+n²)) is far off for few values. Values must be in the order in which they
    were taken. Source: Pettitt, Applied Statistics 28 (1979) 126.
    """
    n = len(values)
    if n < 4:
        return None
    ranks = _doubled_ranks(values)
    statistic, after = _largest(ranks)
    if len(set(values)) == 1:
        p = 1.0
    elif n <= N_ALL:
        p = _share(itertools.permutations(ranks), statistic)
    else:
        p = _sampled(ranks, statistic)
    return Change(after, median(values[:after]), median(values[after:]), statistic, p)


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the midranks less n + 1: whole numbers that sum to zero."""
    n = len(values)
    return [
        2 * sum(other < x for other in values) + sum(other == x for other in values) - n
        for x in values
    ]


def _largest(ranks: Sequence[int]) -> tuple[float, int]:
    """Return K and its place: |Σ_{i≤t} rank| is |U_t| for centred doubled ranks (Pettitt, 2.2)."""
    sums = [abs(total) for total in itertools.accumulate(ranks)][:-1]
    largest = max(sums)
    return float(largest), sums.index(largest) + 1


def _share(orders: Iterable[Sequence[int]], statistic: float) -> float:
    far = total = 0
    for order in orders:
        total += 1
        far += _largest(order)[0] >= statistic
    return far / total


def _sampled(ranks: Sequence[int], statistic: float) -> float:
    """Return (1 + far) / (1 + all): never zero (Phipson & Smyth, SAGMB 9 (2010) 39)."""
    import numpy as np

    orders = np.tile(np.asarray(ranks), (ORDERS, 1))
    np.random.default_rng(SEED).permuted(orders, axis=1, out=orders)
    largest = np.abs(np.cumsum(orders, axis=1)[:, :-1]).max(axis=1)
    return float(1 + (largest >= statistic).sum()) / (1 + ORDERS)
