"""How much the medians of equal runs differ: within runs, between them, and for all cells alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from savemark.stats.repeats import MEDIAN_COST
from savemark.stats.spread import median

Name = TypeVar("Name")
# Degrees of freedom that the supposed noise is worth beside what baselines show, and that the noise
# common to all cells is worth beside a cell's own. From simulation (bench/gate.py): false alarms
# stay under 5 % from one baseline run to ten, whether the noise of a run hits one cell or all.
SUPPOSED_WEIGHT = 4
COMMON_WEIGHT = 8
# The same for all cells together, whose noise only the number of runs can show.
WHOLE_WEIGHT = 3
SUPPOSED_IS_ALL = 1e9


def midmean(values: Iterable[float]) -> float:
    """Mean of the middle half: a few cells far off do not move it (Tukey's midmean)."""
    ordered = sorted(values)
    cut = len(ordered) // 4
    middle = ordered[cut : len(ordered) - cut]
    return sum(middle) / len(middle)


def squares(values: Sequence[float]) -> float:
    """Sum of squares around the mean."""
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values)


def of_a_median(series: Sequence[Sequence[float]]) -> float:
    """Variance of a run's median of logarithms that its own repeats explain; a series per run."""
    freedom = sum(len(each) - 1 for each in series)
    repeats = len(series) / sum(1 / len(each) for each in series)  # harmonic mean
    return MEDIAN_COST**2 * sum(map(squares, series)) / freedom / repeats if freedom else 0.0


def together(cells: Sequence[Sequence[float]]) -> list[float]:
    """One run as a whole, repeat by repeat: the midmean of its cells' logarithms, each centred.

    What hits all cells of a repeat alike is in it once, as it is in the run's level.
    """
    centred = [[x - sum(each) / len(each) for x in each] for each in cells]
    return [midmean(each[i] for each in centred) for i in range(min(map(len, centred)))]


# Of a normal distribution: the standard deviation over the median absolute one.
MAD = 1.4826


def of_blocks(runs: Sequence[Sequence[float]]) -> float:
    """Standard deviation of what moves all cells of a block alike; `together` of each run.

    From the median absolute deviation, so that a burst in one block does not count: the medians of
    cells do not feel it either. 0 where no run has two blocks.
    """
    apart = [abs(x - median(each)) for each in runs if len(each) > 1 for x in each]
    return MAD * median(apart) if apart else 0.0


def moderated(
    levels: Mapping[Name, Sequence[float]],
    within: Mapping[Name, float],
    supposed: float,
    freedom: int,
) -> tuple[dict[Name, float], float]:
    """Variances of the runs' medians of each cell, and the part between runs common to all cells.

    A cell's own over the baselines (k-1 degrees of freedom) and the common one (8) are joined, as
    in Smyth, SAGMB 3 (2004) 3; never less than what the repeats within runs show. The common one is
    pooled over `freedom` degrees, and `supposed` noise counts for 4 more.
    """
    k = len(next(iter(levels.values())))
    shown = sum(squares(each) - (k - 1) * within[name] for name, each in levels.items())
    common = max(0.0, (shown + SUPPOSED_WEIGHT * supposed**2) / (freedom + SUPPOSED_WEIGHT))
    joint = {
        name: (COMMON_WEIGHT * (within[name] + common) + squares(each)) / (COMMON_WEIGHT + k - 1)
        for name, each in levels.items()
    }
    return {name: max(within[name], value) for name, value in joint.items()}, common


def of_the_whole(levels: Sequence[float], within: float, supposed: float) -> float:
    """Variance of a run's level, all cells together, from those of the baselines."""
    joint = (squares(levels) + WHOLE_WEIGHT * (supposed**2 + within)) / (
        len(levels) - 1 + WHOLE_WEIGHT
    )
    return max(within, joint)


def whole_freedom(baselines: int) -> float:
    """Degrees of freedom of that; the supposition alone is taken for the truth."""
    return baselines - 1 + WHOLE_WEIGHT if baselines > 1 else SUPPOSED_IS_ALL


def logs(seconds: Sequence[float]) -> list[float]:
    """Natural logarithms: noise of times is relative."""
    return [math.log(x) for x in seconds]
