"""The times of a run by cell, and the cells of two runs held against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from savemark.stats.cells import Key
from savemark.stats.compare import holm, mann_whitney
from savemark.stats.effect import Effect, difference_of_medians, ratio_of_medians
from savemark.stats.repeats import ALPHA, smallest_p
from savemark.stats.results import TargetResult
from savemark.stats.spread import Spread, median, spread


@dataclass(frozen=True, slots=True)
class Times:
    """The seconds of one phase of one cell, and the bytes that each of its repeats moved."""

    seconds: tuple[float, ...]
    user_bytes: int
    repeats: tuple[int, ...] = ()  # which repeat of the study each is of

    def at_size(self, user_bytes: int) -> Times:
        """Return the times scaled to another size: seconds per byte, times the bytes."""
        if user_bytes == self.user_bytes or not self.user_bytes:
            return self
        scale = user_bytes / self.user_bytes
        return Times(tuple(s * scale for s in self.seconds), user_bytes, self.repeats)


@dataclass(frozen=True, slots=True)
class Measured:
    """Everything of a run that may be compared, and what may not (with its reason)."""

    # Keys have no label where the run has one target: two storages may then be compared.
    times: dict[Key, Times]
    left_out: dict[Key, str]
    forbidden: dict[Key, str]  # in `times` although a check forbids it (its id)


def measured(results: Sequence[TargetResult], *, show_blocked: bool = False) -> Measured:
    """Collect the times of a run; failed cells are left out by name, and so are blocked ones."""
    times: dict[Key, Times] = {}
    left_out: dict[Key, str] = {}
    forbidden: dict[Key, str] = {}
    with_trials = [result for result in results if result.cells]
    for result in with_trials:
        label = result.label if len(with_trials) > 1 else ""
        for cell in result.cells:
            for phase in result.phases:
                key, found = Key(label, cell.setting, phase), cell.phases.get(phase)
                if phase in cell.blocked and not show_blocked:
                    left_out[key] = f"blocked by {cell.blocked[phase]}"
                elif found is None:
                    left_out[key] = "every repeat failed" if cell.failed else "not measured"
                else:
                    repeats, seconds = zip(*found.trials, strict=True)
                    times[key] = Times(seconds, found.user_bytes, repeats)
                    if phase in cell.blocked:
                        forbidden[key] = cell.blocked[phase]
    return Measured(_fastest_first(times), left_out, forbidden)


def _fastest_first(times: dict[Key, Times]) -> dict[Key, Times]:
    """Return the cells by target, then by the time of all phases of their setting."""
    total: dict[tuple[str, str], float] = {}
    for key, each in times.items():
        total[key[:2]] = total.get(key[:2], 0.0) + median(each.seconds)
    labels = list(dict.fromkeys(key.label for key in times))
    order = sorted(times, key=lambda key: (labels.index(key.label), total[key[:2]]))
    return {key: times[key] for key in order}


@dataclass(frozen=True, slots=True)
class Pair:
    """One cell of two runs: the base, the other, how far apart, and whether that can be chance."""

    key: Key
    base: Spread
    other: Spread
    user_bytes: int
    difference: Effect  # seconds
    ratio: Effect  # other / base
    p: float
    p_adjusted: float
    family: int  # tests that Holm's correction counts

    @property
    def verdict(self) -> str:
        """`slower`, `faster`, `not told apart`, or `too few repeats` to tell anything."""
        if self.p_adjusted < ALPHA:
            return "slower" if self.ratio.value > 1 else "faster"
        least = smallest_p(self.base.n, self.other.n)
        return "too few repeats" if least > ALPHA / self.family else "not told apart"


def compare(base: Mapping[Key, Times], others: Sequence[Mapping[Key, Times]]) -> list[list[Pair]]:
    """Compare each run with the base, cell by cell; Holm's correction counts all tests of all runs.

    Times that moved another number of bytes are scaled to the base's size first. The test is the
    exact Mann-Whitney (Hoefler & Belli, SC'15, rule 7); the interval is of the ratio of medians.
    """
    pairs = [
        [_pair(key, base[key], other[key]) for key in base if key in other] for other in others
    ]
    flat = [pair for each in pairs for pair in each]
    adjusted = iter(holm([pair.p for pair in flat]))
    return [
        [replace(p, p_adjusted=next(adjusted), family=len(flat)) for p in each] for each in pairs
    ]


def _pair(key: Key, base: Times, other: Times) -> Pair:
    a, b = base.seconds, other.at_size(base.user_bytes).seconds
    p = mann_whitney(a, b)
    return Pair(
        key=key,
        base=spread(a),
        other=spread(b),
        user_bytes=base.user_bytes,
        difference=difference_of_medians(a, b),
        ratio=ratio_of_medians(a, b),
        p=p,
        p_adjusted=p,
        family=1,
    )
