"""Settings held against each other repeat by repeat: their differences and how far those are known.

A repeat is a block: what hits all of its settings alike cancels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from savemark.stats.spread import median

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

# What the spread of all settings counts beside that of one, in degrees of freedom: from simulation.
COMMON_WEIGHT = 3
POWER = 0.8
# Repeats below which a spread says too little for a test or an interval.
LEAST = 3

Repeats = tuple[tuple[int, float], ...]  # (repeat, cost) of one setting


def lowest(samples: Sequence[Repeats]) -> int:
    """Return which of the settings has the smallest median."""
    medians = [median(value for _, value in each) for each in samples]
    return min(range(len(samples)), key=lambda i: medians[i])


def grid(samples: Sequence[Repeats], *, levelled: bool) -> tuple[Array, bool]:
    """Return settings × repeats less what each repeat has in common, and whether as logarithms.

    Missing ones are nan; logarithms are natural, and made where all costs are above zero. What a
    repeat has in common is the middle of its settings as they are: to flip the signs of a repeat
    then flips just its differences. `levelled`, and where some are missing, it is the middle of
    each setting less its own one, which neither the missing nor far settings move.
    """
    import numpy as np

    repeats = sorted({repeat for each in samples for repeat, _ in each})
    places = {repeat: place for place, repeat in enumerate(repeats)}
    values = np.full((len(samples), len(repeats)), np.nan)
    for row, each in zip(values, samples, strict=True):
        for repeat, value in each:
            row[places[repeat]] = value
    relative = bool(np.nanmin(values) > 0)
    values = np.log(values) if relative else values
    levelled = levelled or bool(np.isnan(values).any())
    own = np.nanmedian(values, axis=1) if levelled else np.zeros(len(samples))
    middle = np.nanmedian(values - own[:, np.newaxis], axis=0)
    return values - middle - np.median(own), relative


def moments(grid: Array, signs: Array | None = None) -> tuple[Array, Array, Array]:
    """Return the count of each setting's repeats, and by flip its mean and variance.

    `signs` has a row per flip and a column per repeat; without it there is one row, of no flip. The
    middle of `k` settings is less far from each of them than what it estimates.
    """
    import numpy as np

    known, filled = ~np.isnan(grid), np.nan_to_num(grid)
    count, k = known.sum(axis=1), len(grid)
    means = (np.ones((1, grid.shape[1])) if signs is None else signs) @ filled.T / count
    squares = np.maximum((filled**2).sum(axis=1) - count * means**2, 0.0)
    return count, means, squares / np.maximum(count - 1, 1) * k / (k - 1)


def moderated(variances: Array, count: Array) -> Array:
    """Return squared standard errors of the means, by flip and setting, from `moments`.

    Each variance is joined with the middle one of all settings, which counts for 3 repeats: that
    of a few repeats is small or large by chance (Smyth, SAGMB 3, 2004, 3).
    """
    import numpy as np

    common = np.median(variances[:, count > 1], axis=1, keepdims=True)
    weight = count - 1.0
    joint: Array = (weight * variances + COMMON_WEIGHT * common) / (weight + COMMON_WEIGHT) / count
    return np.maximum(joint, np.finfo(np.float32).tiny)


def detectable(bar: float, variance: float, freedom: float) -> float:
    """Return the true difference that is found 4 times in 5 where `bar` is the critical value.

    `variance` is that of the difference, `freedom` its degrees of freedom. By the normal
    approximation of noncentral t: Jennett & Welch, JRSS Supplement 6 (1939) 80.
    """
    z = NormalDist().inv_cdf(POWER)
    return (bar + z * math.sqrt(1 + bar**2 / (2 * freedom))) * math.sqrt(variance)
