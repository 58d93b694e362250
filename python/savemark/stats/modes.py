"""Whether values fall into two clumps, as when a run alternates between two states."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

N_LEAST = 6
SHARE = 0.2  # the smaller clump holds at least this share: one outlier is no clump
DRAWS = 4000
SEED = 1969


@dataclass(frozen=True, slots=True)
class Modes:
    """The best split into a low and a high clump, and how likely one clump gives one as clean."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    explained: float  # share of the sum of squares (of logarithms) that the split explains
    p: float

    @property
    def gap(self) -> float:
        """Mean of the high clump over that of the low one, less 1."""
        return (sum(self.high) / len(self.high)) / (sum(self.low) / len(self.low)) - 1


def two_modes(values: Sequence[float]) -> Modes | None:
    """Test positive values (times) for two clumps; None below 6 values or where all are equal.

    The statistic is the share of the sum of squares of the logarithms that the best split into two
    explains (Engelman & Hartigan, JASA 64 (1969) 1647). It is held against the same statistic of
    uniform samples, the flattest single clump there is, as in Hartigan & Hartigan's dip test
    (Annals of Statistics 13 (1985) 70): so a long tail or a bell is not called two clumps. Both
    clumps must hold a fifth of the values. 4000 uniform samples per n, from a fixed seed.
    """
    ordered = tuple(sorted(values))
    n = len(ordered)
    if n < N_LEAST or ordered[0] <= 0 or ordered[0] == ordered[-1]:
        return None
    import numpy as np

    logs = np.log(np.asarray(ordered))[np.newaxis, :]
    shares = _explained(logs)[0]
    best = int(shares.argmax())
    cut, explained = _least(n) + best, float(shares[best])
    null = _uniform(n)
    p = float(1 + (null >= explained).sum()) / (1 + len(null))
    return Modes(ordered[:cut], ordered[cut:], explained, p)


def _least(n: int) -> int:
    return max(2, math.ceil(SHARE * n))


def _explained(rows: Any) -> Any:
    """Return, per sorted row and allowed cut, between-clump over total sum of squares."""
    import numpy as np

    n = rows.shape[1]
    cuts = np.arange(_least(n), n - _least(n) + 1)
    centred = rows - rows.mean(axis=1, keepdims=True)
    below = np.cumsum(centred, axis=1)[:, cuts - 1]  # the rest sums to its negative
    between = below**2 / cuts + below**2 / (n - cuts)
    return between / (centred**2).sum(axis=1, keepdims=True)


@lru_cache(maxsize=64)
def _uniform(n: int) -> Any:
    import numpy as np

    draws = np.sort(np.random.default_rng(SEED).random((DRAWS, n)), axis=1)
    return _explained(draws).max(axis=1)
