"""Whether a new run is slower than its baseline by more than a limit and more than chance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from savemark.stats.compare import holm
from savemark.stats.pairs import Key, Times
from savemark.stats.repeats import ALPHA, MEDIAN_COST
from savemark.stats.spread import CONFIDENCE, median

# Deviation between runs that is supposed until baselines show it, and how many degrees of freedom
# that supposition is worth beside what they show.
ASSUMED_NOISE = 0.02
ASSUMED_WEIGHT = 4
# Degrees of freedom that the noise common to all cells is worth beside a cell's own.
# Both weights are from simulation (bench/gate.py): false alarms stay under 5 % from one baseline
# run to ten, with noise of a run that hits one cell and with noise that hits all alike.
COMMON_WEIGHT = 8
POWER = 0.9


@dataclass(frozen=True, slots=True)
class GateCell:
    """One cell: its typical time in the baselines, the new one, and the loss between them."""

    key: Key
    base_s: float
    new_s: float
    low: float  # of the loss, 95 %
    high: float
    p: float  # one-sided: the new run is no slower
    p_adjusted: float
    findable: float  # a true loss of this size is found with a probability of 90 %
    lost: bool  # more than the limit, and significant

    @property
    def loss(self) -> float:
        """Share by which the time grew; negative where the new run is faster."""
        return self.new_s / self.base_s - 1


@dataclass(frozen=True, slots=True)
class Gate:
    """The verdict over all cells and the noise that it rests on."""

    cells: tuple[GateCell, ...]
    limit: float
    baselines: int
    noise: float  # deviation between runs, as a share; common to all cells
    noise_measured: bool
    missing: tuple[Key, ...]  # in a baseline, not in the new run
    unknown: tuple[Key, ...]  # in the new run, not in every baseline

    @property
    def lost(self) -> list[GateCell]:
        """The cells that fail the gate, the largest loss first."""
        return sorted((c for c in self.cells if c.lost), key=lambda c: -c.loss)


def gate(
    new: Mapping[Key, Times],
    baselines: Sequence[Mapping[Key, Times]],
    limit: float,
    assumed_noise: float = ASSUMED_NOISE,
) -> Gate:
    """Hold a new run against baseline runs; only cells that all of them have are judged.

    The logarithm of a run's median is taken as a run's level plus noise. With baselines b_1..b_k,
    t = (new - mean b) / √(v·(1 + 1/k)), where v, the variance of a run's median, is this cell's own
    over the baselines (k-1 degrees of freedom) together with the one common to all cells (8), as
    in Smyth, SAGMB 3 (2004) 3, and never less than what the repeats within runs already show. The
    common one is the pooled variance between runs, in which `assumed_noise` counts for 4 degrees
    of freedom: with one baseline it is all there is. One-sided p from Student's t, Holm-corrected
    over the cells. A cell is lost if its loss is above `limit` and its p below 0.05.
    """
    keys = [key for key in new if all(key in each for each in baselines)]
    levels, within = {}, {}
    for key in keys:
        times = [each[key].at_size(new[key].user_bytes).seconds for each in baselines]
        levels[key] = [math.log(median(seconds)) for seconds in times]
        within[key] = _within([*times, new[key].seconds])
    common = _common(levels, within, assumed_noise)
    judged = []
    for key in keys:
        variance = _variance(levels[key], within[key], common)
        judged.append(_cell(key, median(new[key].seconds), levels[key], variance, len(keys)))
    adjusted = holm([cell.p for cell in judged])
    known = {key for each in baselines for key in each}
    return Gate(
        cells=tuple(_decide(c, p, limit) for c, p in zip(judged, adjusted, strict=True)),
        limit=limit,
        baselines=len(baselines),
        noise=math.sqrt(common),
        noise_measured=len(baselines) > 1,
        missing=tuple(sorted(known - set(new))),
        unknown=tuple(key for key in new if key not in keys),
    )


def _within(samples: Sequence[Sequence[float]]) -> float:
    """Return the variance of a run's median (of logarithms) that its own repeats explain."""
    logs = [[math.log(x) for x in each] for each in samples]
    means = [sum(each) / len(each) for each in logs]
    squares = sum((x - m) ** 2 for each, m in zip(logs, means, strict=True) for x in each)
    freedom = sum(len(each) - 1 for each in logs)
    repeats = len(logs) / sum(1 / len(each) for each in logs)  # harmonic mean
    return MEDIAN_COST**2 * squares / freedom / repeats if freedom else 0.0


def _spread(levels: Sequence[float]) -> float:
    """Return the sum of squares around the mean."""
    mean = sum(levels) / len(levels)
    return sum((level - mean) ** 2 for level in levels)


def _common(
    levels: Mapping[Key, list[float]], within: Mapping[Key, float], assumed: float
) -> float:
    """Return the variance between runs that all cells together show, and the supposition."""
    shown = sum(_spread(each) - (len(each) - 1) * within[key] for key, each in levels.items())
    freedom = sum(len(each) - 1 for each in levels.values())
    return max(0.0, (shown + ASSUMED_WEIGHT * assumed**2) / (freedom + ASSUMED_WEIGHT))


def _variance(levels: Sequence[float], within: float, common: float) -> float:
    freedom = COMMON_WEIGHT + len(levels) - 1
    return max(within, (COMMON_WEIGHT * (within + common) + _spread(levels)) / freedom)


def _cell(key: Key, new_s: float, levels: Sequence[float], variance: float, tests: int) -> GateCell:
    from scipy.special import stdtr, stdtrit

    freedom = COMMON_WEIGHT + len(levels) - 1
    base = sum(levels) / len(levels)
    error = math.sqrt(variance * (1 + 1 / len(levels)))
    apart = math.log(new_s) - base
    p = float(stdtr(freedom, -apart / error)) if error else float(apart <= 0)
    reach = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    needed = float(stdtrit(freedom, 1 - ALPHA / tests) + stdtrit(freedom, POWER)) * error
    return GateCell(
        key=key,
        base_s=math.exp(base),
        new_s=new_s,
        low=math.expm1(apart - reach),
        high=math.expm1(apart + reach),
        p=p,
        p_adjusted=p,
        findable=math.expm1(needed),
        lost=False,
    )


def _decide(cell: GateCell, p_adjusted: float, limit: float) -> GateCell:
    lost = cell.loss > limit and p_adjusted < ALPHA
    return replace(cell, p_adjusted=p_adjusted, lost=lost)
