"""Which settings the repeats can tell apart from the fastest one.

The best is chosen from the same data as it is then held against, so a test of the others against it
that counts those tests alone is wrong far more often than it says. What is kept at 5 % here is the
chance that any setting is called slower than one that is as fast, whichever is chosen: for that
all pairs count (Hsu, Multiple Comparisons, 1996, 4 and 5; Tukey's studentized range is the case of
equal normal noise). `bench/ties.py` simulates it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from savemark.stats.contrasts import (
    COMMON_WEIGHT,
    LEAST,
    POWER,
    detectable,
    grid,
    lowest,
    moderated,
    moments,
)
from savemark.stats.repeats import ALPHA
from savemark.stats.spread import N_FOR_INTERVAL, median

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

# A cost decides only between settings whose medians are so near to the best one (our choice): that
# repeats cannot tell two apart does not make them equal (Altman & Bland, BMJ 311, 1995, 485).
NEAR = 1.05
FLIPS, NORMAL = "sign flips of whole repeats", "Tamhane's T2, which supposes log-normal times"
# The sign flips that are looked at: all of ten repeats; of more, a sample with the one that is.
MOST_FLIPS = 512
SEED = 1935
# Settings whose pairs are all looked at for each flip; for more of them that takes too long.
MOST_SETTINGS = 500

ByRepeat = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Group:
    """The best of some settings, what cannot be told from it, and by which test.

    `near` are the best and those of the tied whose medians are at most 5 % above its own.
    `findable` is the difference to the best, as a share, that about 4 of 5 such runs would show,
    for settings of middling noise; None where no test is made. `test` is empty then: all are tied.
    """

    best: int
    tied: tuple[int, ...]
    near: tuple[int, ...]
    test: str
    findable: float | None
    p_adjusted: tuple[float | None, ...]

    @property
    def tested(self) -> bool:
        """Whether the repeats allow a test."""
        return bool(self.test)


def group_of_best(samples: Sequence[ByRepeat]) -> Group:
    """The best (smallest median) and everything that is not shown to be slower than it.

    `samples` are costs by repeat; a repeat is a block, and what hits all settings of it cancels.
    A setting is out of the group if its adjusted p is below 0.05. The statistic is the mean
    difference of the logarithms to the best, over its standard error.

    * 6 repeats and more: the largest such statistic of all pairs, with the signs of whole repeats
      flipped. Equal settings whose noise is symmetric give any flip alike, whatever that noise is
      for each (Fisher, Design of Experiments, 1935, 21; the maximum: Westfall & Young 1993). Each
      standard error is moderated by the common one (Smyth, SAGMB 3, 2004, 3).
    * 3 to 5 repeats have too few flips for 5 %, so noise is supposed to be log-normal: Tamhane's T2
      (JASA 74, 1979, 471; Welch's test, Bonferroni over all pairs), no standard error below the
      middle one. The same where there are more than 500 settings.
    * fewer: nothing can be shown, and all are tied.
    """
    return _group(tuple(tuple(sorted(each.items())) for each in samples))


# The page, its Markdown, the checks and the figures all ask who leads: it is computed once.
@lru_cache(maxsize=2**9)
def _group(samples: tuple[tuple[tuple[int, float], ...], ...]) -> Group:
    medians = [median(value for _, value in each) for each in samples]
    best = lowest(samples)
    repeats = {repeat for each in samples for repeat, _ in each}
    test, findable = "", None
    p_values: list[float | None] = [None] * len(samples)
    if len(samples) > 1 and max(map(len, samples)) >= LEAST:
        values, relative = grid(samples, levelled=False)
        flips = len(repeats) >= N_FOR_INTERVAL and len(samples) <= MOST_SETTINGS
        test = FLIPS if flips else NORMAL
        found, least = (_flipped if flips else _normal)(values, best)
        p_values = [None if i == best else float(p) for i, p in enumerate(found)]
        findable = math.expm1(least) if relative else None
    others = [i for i in range(len(samples)) if i != best]
    tied = sorted((i for i in others if (p := p_values[i]) is None or p >= ALPHA),
                  key=lambda i: medians[i])  # fmt: skip
    near = [best, *(i for i in tied if medians[i] <= NEAR * medians[best])]
    return Group(best, tuple(tied), tuple(near), test, findable, tuple(p_values))


def _flipped(values: Array, best: int) -> tuple[Array, float]:
    """Return the adjusted p of each setting against the best, and the least that is findable."""
    import numpy as np

    count, means, variances = moments(values, _signs(values.shape[1]))
    errors = moderated(variances, count)
    largest = _largest(means.astype(np.float32), errors.astype(np.float32))
    # As the largest is computed, so that the flip that was seen counts itself.
    differences = np.maximum(means[0] - means[0, best], 0).astype(np.float32)
    both = errors[0] + errors[0, best]
    seen = differences**2 / both.astype(np.float32)
    p_values = (largest[:, np.newaxis] >= seen * (1 - 1e-5)).mean(axis=0)
    others = np.sort(largest[1:])[::-1]
    bar = math.sqrt(others[int(ALPHA * len(largest)) - 1])
    freedom = 2 * (float(np.median(count)) - 1) + COMMON_WEIGHT
    middle = float(np.median(np.delete(both, best)))
    return p_values, detectable(bar, middle, freedom)


@lru_cache(maxsize=32)
def _signs(repeats: int) -> Array:
    """Return flips of the signs of repeats, a row each, the first of none; mirrors count once.

    A sample is a group as well, each flip the product of two others: any other set of flips would
    keep its level only on average over such sets (Hemerik & Goeman, TEST 27, 2018, 811).
    """
    import numpy as np

    if 2 ** (repeats - 1) <= MOST_FLIPS:
        numbers = np.arange(2 ** (repeats - 1))
        return 1.0 - 2.0 * (numbers[:, np.newaxis] >> np.arange(repeats) & 1)
    rng, numbers = np.random.default_rng(SEED), np.arange(MOST_FLIPS)
    columns = rng.choice(numbers[1:], size=repeats, replace=repeats >= MOST_FLIPS)
    common = numbers[:, np.newaxis] & columns
    bits: Array = np.zeros_like(common)
    for place in range(MOST_FLIPS.bit_length() - 1):
        bits += common >> place & 1
    return 1.0 - 2.0 * (bits % 2)


def _largest(means: Array, errors: Array, at_once: int = 8) -> Array:
    """Return by flip the largest of all pairs' squared differences over their squared errors."""
    import numpy as np

    found = np.empty(len(means), np.float32)
    for at in range(0, len(means), at_once):
        m, e = means[at : at + at_once], errors[at : at + at_once]
        apart = m[:, :, np.newaxis] - m[:, np.newaxis, :]
        apart *= apart
        apart /= e[:, :, np.newaxis] + e[:, np.newaxis, :]
        found[at : at + at_once] = apart.reshape(len(m), -1).max(axis=1)
    return found


def _normal(values: Array, best: int) -> tuple[Array, float]:
    """Return the same by Tamhane's T2; who has fewer than three repeats is not told apart."""
    import numpy as np
    from scipy.special import stdtr, stdtrit

    k = len(values)
    count, (means,), (variances,) = moments(values)
    # Values that were rounded may all be equal, and yet half a step off.
    steps = np.diff(np.unique(values[~np.isnan(values)]))
    step = steps.min() if len(steps) else 1.0
    least = max(np.median(variances[count > 1]), step**2 / 4)
    errors = np.maximum(variances, least) / count
    both = errors + errors[best]
    weight = np.maximum(count - 1, 1)
    freedom = both**2 / (errors**2 / weight + errors[best] ** 2 / weight[best])
    if k == 2:  # less their middle, the two are one another's mirror
        freedom = np.minimum(weight, weight[best])
    tails = stdtr(freedom, -(means - means[best]) / np.sqrt(both))
    p_values = np.where((count < LEAST) | (count[best] < LEAST), 1.0, tails * k * (k - 1))
    bars = -stdtrit(freedom, ALPHA / (k * (k - 1)))
    each = zip(bars.tolist(), both.tolist(), freedom.tolist(), strict=True)
    shown = sorted(detectable(*facts) for i, facts in enumerate(each) if i != best)
    # Standard errors of so few repeats differ much by chance: what is said must hold for most.
    return np.minimum(p_values, 1.0), shown[int(POWER * (k - 1))]
