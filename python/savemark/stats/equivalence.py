"""How much slower than the best each setting is, and whether that decides anything.

Each pair of settings gets an interval of the ratio of its times, all of them together right in 95
of 100 runs. So those against the best are right too, though the same repeats chose it (Hsu,
Multiple Comparisons, 1996, 4). With them, two tests in one: that a setting is at most so much
slower, as two one-sided tests do it (Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics
15, 1987, 657), and that it is slower at all.

The intervals are those of t, Bonferroni over all pairs, with moderated standard errors, none below
the middle one, and Satterthwaite's degrees of freedom. Flipping the signs of repeats, as `ties`
does for its test, was measured beside it, of settings less their means, for an interval has no zero
to flip around: six repeats have 32 flips, so its critical value is the largest of them, and the
intervals of two settings were half as wide again; with 8 to 30 repeats they missed the truth in up
to 7.8 of 100 runs. Those of t missed it in at most 5 (within what 400 runs can show) with noise
that is equal, up to five times as high in some, drifting, bursting, with outliers and in two
states, for 2 to 24 settings and 6 to 30 repeats. The studentized range would make them up to a
tenth narrower, but not for two, and takes SciPy a second to load. `bench/ties.py` simulates the
intervals, `bench/places.py` a whole run, which looks at them after every block.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from savemark.stats.contrasts import (
    COMMON_WEIGHT,
    LEAST,
    Repeats,
    detectable,
    grid,
    lowest,
    moderated,
    moments,
)
from savemark.stats.repeats import ALPHA
from savemark.stats.spread import N_FOR_INTERVAL

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

MARGIN = 0.10
# Repeats in all beyond which nobody waits for a decision.
MOST_REPEATS = 100

Status = Literal["as fast", "slower", "unknown"]


@dataclass(frozen=True, slots=True)
class Against:
    """A setting's time over the best's less 1, as an interval, and what that decides.

    `low` and `high`: 0.12 is 12 % slower; -1 and infinity where nothing is known. `more`: the
    repeats beyond those there are that would decide in 4 of 5 such runs; 0 where it is decided,
    None where 100 repeats in all would not, up to six in all where nothing is known.
    """

    low: float
    high: float
    status: Status
    more: int | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The best of some settings, the one of the smallest median, and the others in their order.

    The best itself is None in `others`.
    """

    best: int
    others: tuple[Against | None, ...]

    @property
    def decided(self) -> bool:
        """Whether of each setting it is known whether it is as fast."""
        return all(each is None or each.status != "unknown" for each in self.others)


def against_best(samples: Sequence[Mapping[int, float]], margin: float = MARGIN) -> Comparison:
    """Hold each setting against the one with the smallest median.

    `samples` are times by repeat, above zero, at least one per setting; a repeat is a block, and
    what hits all settings of it cancels. A setting is "as fast" where its interval ends within
    `margin`, "slower" where it begins above zero and ends beyond, else "unknown"; so is every one
    whose repeats, or the best's, are fewer than 6.
    """
    return _against(tuple(tuple(sorted(each.items())) for each in samples), margin)


# Verdict, table, page and figures all ask: it is computed once.
@lru_cache(maxsize=2**9)
def _against(samples: tuple[Repeats, ...], margin: float) -> Comparison:
    best = lowest(samples)
    others: list[Against | None] = [
        _nothing(min(len(each), len(samples[best]))) for each in samples
    ]
    if len(samples) > 1 and len(samples[best]) >= LEAST:
        values, relative = grid(samples, levelled=True)
        if relative:
            others = _intervals(values, best, margin)
    others[best] = None
    return Comparison(best, tuple(others))


def _nothing(n: int) -> Against:
    """What is known of a setting with too few repeats."""
    more = N_FOR_INTERVAL - n if n < N_FOR_INTERVAL else None
    return Against(-1.0, math.inf, "unknown", more)


def _intervals(values: Array, best: int, margin: float) -> list[Against | None]:
    """Hold rows of logarithms against one of them; those with too few repeats are not known."""
    import numpy as np

    k = len(values)
    count, (means,), variances = moments(values)
    middle = np.median(variances[0][count > 1])
    errors = np.maximum(moderated(variances, count)[0], middle / count)
    found: list[Against | None] = []
    for one in range(k):
        n = int(min(count[one], count[best]))
        if n < LEAST:
            found.append(_nothing(n))
            continue
        pair = errors[one] + errors[best]
        # Satterthwaite, Biometrics Bulletin 2 (1946) 110: two settings may differ in their noise.
        shared = pair**2 / (errors[one] ** 2 + errors[best] ** 2)
        far = float(means[one] - means[best])
        half = float(_bar(shared * _freedom(k, n), k)) * math.sqrt(pair)
        low, high = math.expm1(far - half), math.expm1(far + half)
        status: Status = "unknown"
        if n >= N_FOR_INTERVAL and high <= margin:
            status = "as fast"
        elif n >= N_FOR_INTERVAL and low > 0:
            status = "slower"
        decided = max(far, math.log1p(margin) - far)
        more = _more(decided, float(pair) * n, float(shared), k, n)
        found.append(Against(low, high, status, 0 if status != "unknown" else more))
    return found


def _freedom(k: int, n: int) -> float:
    """Degrees of freedom of a setting's error: a repeat's middle, of `k`, is estimated too."""
    return ((n - 1) * (k - 1) + COMMON_WEIGHT * (k - 2)) / k


def _bar(freedom: float, k: int) -> float:
    """The critical value of one of all pairs, two-sided."""
    from scipy.special import stdtrit

    return -float(stdtrit(freedom, ALPHA / (k * (k - 1))))


def _more(decided: float, variance: float, shared: float, k: int, n: int) -> int | None:
    """Return repeats beyond `n` that decide in 4 of 5 runs, if all stays as it was seen.

    `decided` is how far the difference that was seen is from the farther of zero and the margin:
    being told from either decides. `variance` is that of the difference in one repeat; `shared`
    times a setting's degrees of freedom are those of the pair; `k` are settings, `n` repeats.
    """
    for repeats in range(max(n + 1, N_FOR_INTERVAL), MOST_REPEATS + 1):
        freedom = shared * _freedom(k, repeats)
        if detectable(_bar(freedom, k), variance / repeats, freedom) <= decided:
            return repeats - n
    return None
