"""Old and new measured in turns, in one run: what hits both alike cancels, repeat by repeat."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist

from savemark.stats import noise
from savemark.stats.cells import Key
from savemark.stats.compare import holm
from savemark.stats.gate import POWER, Gate, GateCell, Whole
from savemark.stats.pairs import Times
from savemark.stats.repeats import ALPHA
from savemark.stats.signed import shift, signed_rank, smallest_signed_p
from savemark.stats.spread import CONFIDENCE, median

# Of a false alarm's 5 %: all cells together, and each cell for itself.
SHARES = (0.5, 0.5)
# What the signed ranks need more of than a t test does, with normal values: π/3.
RANK_COST = math.pi / 3
# Standard deviation over the median absolute deviation, normal values (Hampel 1974).
NORMAL_MAD = 1.4826


def in_turns(old: Mapping[Key, Times], new: Mapping[Key, Times], limit: float) -> Gate:
    """Hold the new side of a run against the old one by the repeats that both have.

    Per cell, the differences of logarithms within each repeat; for all cells together, their
    midmean in each repeat. One-sided exact signed-rank tests, Holm-corrected with half of the error
    for all cells together. The loss is the Hodges-Lehmann shift. A cell is lost if its loss is
    above `limit` and its own p, or that of all cells together, below 0.05.
    """
    keys = [key for key in new if key in old and len(_differences(old[key], new[key])) > 1]
    found = Gate(
        cells=(),
        whole=None,
        limit=limit,
        baselines=0,
        noise=0.0,
        noise_measured=True,
        missing=tuple(key for key in old if key not in keys),
        unknown=tuple(key for key in new if key not in keys and key not in old),
    )
    if not keys:
        return found
    apart = {key: _differences(old[key], new[key]) for key in keys}
    common = sorted(set.intersection(*(set(each) for each in apart.values())))
    each_repeat = [noise.midmean(each[i] for each in apart.values()) for i in common]
    whole_share = SHARES[0] if len(keys) > 1 else 1.0
    tests = [list(each.values()) for each in apart.values()] if len(keys) > 1 else []
    family = [signed_rank(each_repeat), *map(signed_rank, tests)]
    adjusted = holm(family, [whole_share, *(SHARES[1] / len(keys) for _ in tests)])
    whole = _whole(each_repeat, adjusted[0], whole_share, limit)
    cells = [_cell(key, old[key], list(each.values()), len(keys)) for key, each in apart.items()]
    marked = []
    for place, cell in enumerate(cells):
        own = [adjusted[1 + place]] if tests else []
        p = min(own + ([whole.p_adjusted] if whole.lost or not own else []))
        marked.append(replace(cell, p_adjusted=p, lost=cell.loss > limit and p < ALPHA))
    shaken = median([_deviation(list(each.values())) for each in apart.values()])
    return replace(found, cells=tuple(marked), whole=whole, noise=shaken, repeats=len(common))


def repeats_for(cells: int) -> int:
    """Repeats with which a loss in one of `cells` can be found at all: every one of them slower."""
    share = 1.0 if cells == 1 else SHARES[1] / cells
    n = 1
    while smallest_signed_p(n) >= ALPHA * share:
        n += 1
    return n


def _differences(old: Times, new: Times) -> dict[int, float]:
    """Logarithm of new over old, by repeat."""
    scaled = new.at_size(old.user_bytes)
    before = dict(zip(old.repeats, old.seconds, strict=True))
    after = dict(zip(scaled.repeats, scaled.seconds, strict=True))
    return {i: math.log(after[i] / before[i]) for i in before if i in after}


def _cell(key: Key, old: Times, apart: Sequence[float], cells: int) -> GateCell:
    middle, low, high = shift(apart, CONFIDENCE)
    base, p = median(old.seconds), signed_rank(apart)
    return GateCell(
        key=key,
        base_s=base,
        new_s=base * math.exp(middle),
        low=math.expm1(low),
        high=math.expm1(high),
        p=p,
        p_adjusted=1.0,
        findable=math.expm1(_reach(apart, 1.0 if cells == 1 else SHARES[1] / cells)),
        lost=False,
    )


def _reach(apart: Sequence[float], share: float, n: int | None = None) -> float:
    """The true distance that is found 9 times in 10, about."""
    z = NormalDist()
    return (z.inv_cdf(1 - ALPHA * share) + z.inv_cdf(POWER)) * _error(apart, n)


def _error(apart: Sequence[float], n: int | None = None) -> float:
    return _deviation(apart) * math.sqrt(RANK_COST / (n or len(apart)))


def _deviation(apart: Sequence[float]) -> float:
    """Standard deviation by the median distance from the median: ranks do not mind outliers."""
    middle = median(apart)
    return NORMAL_MAD * median([abs(x - middle) for x in apart])


def _whole(apart: Sequence[float], p_adjusted: float, share: float, limit: float) -> Whole:
    middle, low, high = shift(apart, CONFIDENCE)
    loss = math.expm1(middle)
    return Whole(
        loss=loss,
        low=math.expm1(low),
        high=math.expm1(high),
        p=signed_rank(apart),
        p_adjusted=p_adjusted,
        found=_power(apart, share, limit, len(apart)),
        needed=next((n for n in range(2, 101) if _power(apart, share, limit, n) >= POWER), None),
        lost=loss > limit and p_adjusted < ALPHA,
    )


def _power(apart: Sequence[float], share: float, limit: float, n: int) -> float:
    """How often n repeats would find a loss of twice the limit in all cells, about."""
    if smallest_signed_p(n) >= ALPHA * share:
        return 0.0
    error = _error(apart, n)
    if not error:
        return 1.0
    z = NormalDist()
    bar = max(z.inv_cdf(1 - ALPHA * share) * error, math.log1p(limit))
    return z.cdf((math.log1p(2 * limit) - bar) / error)
