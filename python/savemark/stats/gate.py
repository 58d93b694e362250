"""Whether a new run is slower than its baselines by more than a limit and more than chance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from savemark.stats import noise
from savemark.stats.cells import Key
from savemark.stats.compare import holm
from savemark.stats.pairs import Times
from savemark.stats.repeats import ALPHA
from savemark.stats.spread import CONFIDENCE, median

# Deviation between runs that is supposed until baselines show it.
ASSUMED_NOISE = 0.02
POWER = 0.9
# The most baselines that anyone would be told to measure.
MOST_BASELINES = 20
# How the chance of a false alarm is shared out: all cells together, each cell alone, each cell
# beside the others of its run. One baseline shows nothing of how cells differ from each other.
SHARES = (0.5, 0.25, 0.25)
SHARES_OF_ONE = (0.8, 0.2, 0.0)


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
    findable: float  # a true loss of this size, in this cell only, is found 9 times in 10
    lost: bool  # more than the limit, and significant

    @property
    def loss(self) -> float:
        """Share by which the time grew; negative where the new run is faster."""
        return self.new_s / self.base_s - 1


@dataclass(frozen=True, slots=True)
class Whole:
    """All cells together: the midmean of their losses."""

    loss: float
    low: float  # 95 %
    high: float
    p: float
    p_adjusted: float
    found: float  # how often a loss of twice the limit in all cells would be found
    needed: int | None  # baselines (or repeats of a pair) for 9 times in 10; None: no number is
    lost: bool


@dataclass(frozen=True, slots=True)
class Gate:
    """The verdict over all cells and the noise that it rests on."""

    cells: tuple[GateCell, ...]
    whole: Whole | None  # None where there is no cell to judge
    limit: float
    baselines: int  # 0: old and new were measured in turns, in one run
    noise: float  # deviation between runs (in turns: between repeats), as a share
    noise_measured: bool
    missing: tuple[Key, ...] = ()  # in a baseline, not in the new run
    unknown: tuple[Key, ...] = ()  # in the new run, not in every baseline
    repeats: int = 0  # of a pair measured in turns

    @property
    def in_turns(self) -> bool:
        """Whether old and new are two targets of one run."""
        return not self.baselines

    @property
    def lost(self) -> list[GateCell]:
        """The cells that fail the gate, the largest loss first."""
        return sorted((c for c in self.cells if c.lost), key=lambda c: -c.loss)


@dataclass(frozen=True, slots=True)
class Test:
    """How far the new run is apart, the error of that, and how many degrees it is known with."""

    apart: float  # of logarithms
    error: float
    freedom: float
    share: float  # of the chance of a false alarm

    @property
    def p(self) -> float:
        """One-sided p of Student's t."""
        from scipy.special import stdtr

        if not self.error:
            return float(self.apart <= 0)
        return float(stdtr(self.freedom, -self.apart / self.error))

    def reach(self, share: float) -> float:
        """How far apart the share (0.975, say) of all that is due to chance reaches."""
        from scipy.special import stdtrit

        return float(stdtrit(self.freedom, share)) * self.error

    @property
    def findable(self) -> float:
        """The true distance that is found 9 times in 10."""
        return self.reach(1 - ALPHA * self.share) + self.reach(POWER)

    def power(self, limit: float) -> float:
        """How often a true loss of twice the limit is above the limit, and significant."""
        from scipy.special import stdtr

        if not self.error:
            return 1.0
        bar = max(self.reach(1 - ALPHA * self.share), math.log1p(limit))
        return float(stdtr(self.freedom, (math.log1p(2 * limit) - bar) / self.error))


def gate(
    new: Mapping[Key, Times],
    baselines: Sequence[Mapping[Key, Times]],
    limit: float,
    assumed_noise: float = ASSUMED_NOISE,
) -> Gate:
    """Hold a new run against baseline runs; only cells that all of them have are judged.

    The logarithm of a run's median is taken as a run's level plus noise; with k baselines
    t = (new - mean of them) / √(v·(1 + 1/k)), one-sided from Student's t. Three questions are
    asked: of all cells together (their midmean, against how the midmeans of baselines differ), of
    each cell alone, and of each cell beside its run: less the midmean, so that noise which hits
    all cells alike cancels. They share a false alarm's 5 % as in SHARES (Holm with weights). A cell
    is lost if its loss is above `limit` and its own p, or that of all cells together, below 0.05.
    `noise.py` says where v comes from: with one baseline from `assumed_noise`, or from how much the
    blocks of the runs differ, if that is more: what moves the machine from one block to the next
    moves it from one run to the next, too.
    """
    keys = [key for key in new if all(key in each for each in baselines)]
    known = {key for each in baselines for key in each}
    found = Gate(
        cells=(),
        whole=None,
        limit=limit,
        baselines=len(baselines),
        noise=assumed_noise,
        noise_measured=len(baselines) > 1,
        missing=tuple(sorted(known - set(new))),
        unknown=tuple(key for key in new if key not in keys),
    )
    if not keys:
        return found
    runs = [
        {key: noise.logs(each[key].at_size(new[key].user_bytes).seconds) for key in keys}
        for each in (*baselines, new)
    ]
    supposed = assumed_noise
    if len(baselines) == 1:
        supposed = max(supposed, noise.of_blocks([_together(run, keys) for run in runs]))
    return _judged(found, keys, runs, supposed)


def _together(run: Mapping[Key, list[float]], keys: Sequence[Key]) -> list[float]:
    return noise.together([run[key] for key in keys])


def _judged(
    gate_: Gate, keys: list[Key], runs: list[dict[Key, list[float]]], supposed: float
) -> Gate:
    """`runs` are the logarithms of times, the new run last."""
    k = gate_.baselines
    shares = SHARES if k > 1 else SHARES_OF_ONE
    if len(keys) == 1:
        shares = (1.0, 0.0, 0.0)
    levels = {key: [median(run[key]) for run in runs] for key in keys}
    apart = {key: each[k] - sum(each[:k]) / k for key, each in levels.items()}
    old = {key: [x - sum(each[:k]) / k for x in each[:k]] for key, each in levels.items()}
    within = {key: noise.of_a_median([run[key] for run in runs]) for key in keys}
    run_levels = [noise.midmean(old[key][j] for key in keys) for j in range(k)]
    centre = noise.midmean(apart.values())

    wide = math.sqrt(1 + 1 / k)
    shaken = noise.of_a_median([_together(run, keys) for run in runs])
    variance = noise.of_the_whole(run_levels, shaken, supposed)
    whole = Test(centre, math.sqrt(variance) * wide, noise.whole_freedom(k), shares[0])

    each_share = [share / len(keys) for share in shares[1:]]
    freedom = noise.COMMON_WEIGHT + k - 1
    variances, common = noise.moderated(old, within, supposed, (k - 1) * len(keys))
    alone = {
        key: Test(apart[key], math.sqrt(v) * wide, freedom, each_share[0])
        for key, v in variances.items()
    }
    beside = {}
    if each_share[1]:
        # What the midmean takes away is a degree of freedom of each run.
        lost = math.sqrt(len(keys) / (len(keys) - 1))
        rest = {
            key: [lost * (x - r) for x, r in zip(old[key], run_levels, strict=True)] for key in keys
        }
        variances, _ = noise.moderated(rest, within, supposed, (k - 1) * (len(keys) - 1))
        beside = {
            key: Test(apart[key] - centre, math.sqrt(v) * wide, freedom, each_share[1])
            for key, v in variances.items()
        }
    cells = [
        _cell(key, levels[key], alone[key], [t for t in (alone, beside) if t and each_share[0]])
        for key in keys
    ]
    tests = [[each[key] for each in (alone, beside) if each and each_share[0]] for key in keys]
    needed = _needed(variance, gate_.limit, shares[0])
    return decide(replace(gate_, noise=math.sqrt(common)), cells, tests, whole, needed)


def _cell(
    key: Key, levels: Sequence[float], alone: Test, tests: Sequence[Mapping[Key, Test]]
) -> GateCell:
    reach = alone.reach((1 + CONFIDENCE) / 2)
    asked = [each[key] for each in tests] or [replace(alone, share=1.0)]
    return GateCell(
        key=key,
        base_s=math.exp(levels[-1] - alone.apart),
        new_s=math.exp(levels[-1]),
        low=math.expm1(alone.apart - reach),
        high=math.expm1(alone.apart + reach),
        p=min(test.p for test in asked),
        p_adjusted=1.0,
        findable=math.expm1(min(test.findable for test in asked)),
        lost=False,
    )


def _needed(variance: float, limit: float, share: float) -> int | None:
    """Baselines with which a loss of twice the limit in all cells is found 9 times in 10."""
    for k in range(1, MOST_BASELINES + 1):
        error = math.sqrt(variance * (1 + 1 / k))
        if Test(0.0, error, noise.whole_freedom(k), share).power(limit) >= POWER:
            return k
    return None


def decide(
    gate_: Gate,
    cells: Sequence[GateCell],
    tests: Sequence[Sequence[Test]],
    whole: Test,
    needed: int | None,
) -> Gate:
    """Correct the p of all tests together, and mark what is lost."""
    family = [whole, *(test for each in tests for test in each)]
    adjusted = iter(holm([test.p for test in family], [test.share for test in family]))
    p_whole = next(adjusted)
    reach = whole.reach((1 + CONFIDENCE) / 2)
    loss = math.expm1(whole.apart)
    together = Whole(
        loss=loss,
        low=math.expm1(whole.apart - reach),
        high=math.expm1(whole.apart + reach),
        p=whole.p,
        p_adjusted=p_whole,
        found=whole.power(gate_.limit),
        needed=needed,
        lost=loss > gate_.limit and p_whole < ALPHA,
    )
    judged = []
    for cell, own in zip(cells, tests, strict=True):
        p = min([next(adjusted) for _ in own] + ([p_whole] if together.lost or not own else []))
        lost = cell.loss > gate_.limit and p < ALPHA
        judged.append(replace(cell, p_adjusted=p, lost=lost))
    return replace(gate_, cells=tuple(judged), whole=together)
