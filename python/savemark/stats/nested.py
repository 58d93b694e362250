"""How much of the spread lies between runs and how much within them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Components:
    """Variances between and within groups, their ratio, and whether groups differ at all."""

    between: float  # variance of the groups' true levels; 0 where the estimate is negative
    within: float  # variance of a value around its group's level
    icc: float  # ICC(1): (MSB - MSW) / (MSB + (n0 - 1)·MSW); negative if groups are too alike
    f: float
    p: float
    mean: float

    @property
    def between_cv(self) -> float:
        """Standard deviation between groups as a share of the mean."""
        return float(self.between**0.5 / self.mean) if self.mean else 0.0

    @property
    def within_cv(self) -> float:
        """Standard deviation within groups as a share of the mean."""
        return float(self.within**0.5 / self.mean) if self.mean else 0.0


def components(groups: Sequence[Sequence[float]]) -> Components | None:
    """Split the variance of values (repeats) in groups (runs, sessions): random-effects ANOVA.

    None with fewer than two groups, an empty group, or no group of two: nothing to compare then.
    Groups may differ in size. Sources: Searle, Casella & McCulloch, Variance Components (1992),
    3.6; ICC(1): Shrout & Fleiss, Psychological Bulletin 86 (1979) 420. The F test supposes normal
    values: give logarithms of times where the spread is large.
    """
    k, total = len(groups), sum(len(group) for group in groups)
    if k < 2 or total <= k or any(len(group) == 0 for group in groups):
        return None
    mean = sum(sum(group) for group in groups) / total
    means = [sum(group) / len(group) for group in groups]
    pairs = list(zip(groups, means, strict=True))
    msb = sum(len(group) * (m - mean) ** 2 for group, m in pairs) / (k - 1)
    msw = sum((x - m) ** 2 for group, m in pairs for x in group) / (total - k)
    size = (total - sum(len(group) ** 2 for group in groups) / total) / (k - 1)  # n0
    spread = msb + (size - 1) * msw
    return Components(
        between=max(0.0, (msb - msw) / size),
        within=msw,
        icc=(msb - msw) / spread if spread else 0.0,
        f=msb / msw if msw else (float("inf") if msb else 1.0),
        p=_p(msb, msw, k - 1, total - k),
        mean=mean,
    )


def _p(msb: float, msw: float, above: int, below: int) -> float:
    if msw == 0:
        return 1.0 if msb == 0 else 0.0
    from scipy.special import fdtrc

    return float(fdtrc(above, below, msb / msw))
