"""How far the medians of two samples lie apart, with an interval."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from savemark.stats.spread import CONFIDENCE, N_FOR_INTERVAL, median

RESAMPLES = 4000
SEED = 1987


@dataclass(frozen=True, slots=True)
class Effect:
    """A figure that compares medians, with a 95 % interval where both samples allow one."""

    value: float
    low: float | None
    high: float | None
    method: str  # BCa, percentile, or why there is no interval


def difference_of_medians(base: Sequence[float], other: Sequence[float]) -> Effect:
    """median(other) - median(base), in the unit of the samples."""
    return _bootstrapped(base, other, ratio=False)


def ratio_of_medians(base: Sequence[float], other: Sequence[float]) -> Effect:
    """median(other) / median(base): medians are taken first, ratios are never averaged.

    Hoefler & Belli, SC'15, rule 4.
    """
    return _bootstrapped(base, other, ratio=True)


def _bootstrapped(base: Sequence[float], other: Sequence[float], *, ratio: bool) -> Effect:
    """Return the figure with a BCa bootstrap interval, 4000 resamples of a fixed seed.

    Source: Efron, JASA 82 (1987) 171, as in scipy.stats.bootstrap. Where BCa is undefined (a sample
    without spread, or of too few different values) the percentile interval takes its place.
    Below 6 values no interval of the median reaches 95 %, so none is given.
    """
    a, b = median(base), median(other)
    value = b / a if ratio else b - a
    if min(len(base), len(other)) < N_FOR_INTERVAL:
        return Effect(value, None, None, f"n < {N_FOR_INTERVAL}: no interval")
    for method in ("BCa", "percentile"):
        low, high = _interval((base, other), method, ratio)
        if not (math.isnan(low) or math.isnan(high)):
            return Effect(value, min(low, value), max(high, value), method)
    raise AssertionError("the percentile interval is always defined")


def _interval(
    samples: tuple[Sequence[float], Sequence[float]], method: str, ratio: bool
) -> tuple[float, float]:
    # SciPy takes most of a second to import.
    import numpy as np
    from scipy.stats import DegenerateDataWarning, bootstrap

    def figure(a: Any, b: Any, axis: int = -1) -> Any:
        below, above = np.median(a, axis=axis), np.median(b, axis=axis)
        return above / below if ratio else above - below

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)
        warnings.simplefilter("ignore", RuntimeWarning)  # 0/0 inside BCa, which then is nan
        found = bootstrap(
            samples,
            figure,
            n_resamples=RESAMPLES,
            confidence_level=CONFIDENCE,
            method=method,
            vectorized=True,
            rng=np.random.default_rng(SEED),
        ).confidence_interval
    return float(found.low), float(found.high)
