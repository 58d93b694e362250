"""A race: every setting runs once, briefly; what may be the best is then measured properly.

Most of the time of a full grid goes into settings that are far behind. Here they are left out after
one short trial each (Maron & Moore, NIPS 6, 1994, 59; Birattari et al., GECCO 2002, 11, call this
a race; the share of the best that stays is fixed, as in successive halving, Jamieson & Talwalkar,
AISTATS 2016, 240). What was measured to choose the finalists is in no statistic: they are measured
anew, or the choice would favour whoever was lucky once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MIB, GIB = 1 << 20, 1 << 30
# The sizes that are confirmed with: few, so that two runs on one machine do the same work, and near
# enough to each other that two minutes hold more than one finalist.
LADDER = tuple(256 * MIB << n for n in range(9))
# Below the ladder, where neither memory nor room hold its lowest rung.
SMALLER = (128 * MIB, 64 * MIB, 32 * MIB, 16 * MIB)
# Seconds of the fastest phase: of one short trial, and of those that count.
SCREEN_S, CONFIRM_S = 0.5, 1.0
# For how many seconds the fastest phase may last with the size of an earlier run.
SAME_WORK = (0.8 * SCREEN_S, 4 * CONFIRM_S)
# What the look knows of a storage comes from one small checkpoint: it may be much faster.
UNSURE = 1.5
STEP = 256 * MIB  # screening sizes are multiples of it
# One core's speed is measured once and briefly: a setting is ruled out only well beyond its bound.
BOUND_MARGIN = 1.2
# A codec that saves less than this share of the bytes is not kept for its bytes.
WORTH = 0.03
# So many are confirmed whatever the budget: one alone would be what one short trial has chosen.
ALWAYS = 2
# One short trial may have met what disturbs the place now and then: whoever took no more than so
# many times the least is tried once more, these many at most, and the shorter time counts.
AGAIN, MOST_AGAIN = 2.5, 6
# Of the fastest: a trial more or less may turn their order round, so they are confirmed first.
NEAR = 1.15


@dataclass(frozen=True)
class Race:
    """How a study looks for its best setting.

    `baseline` are the levels that every other setting is held against, where the study has them;
    `keep` is how many times the least time a setting may take and still be confirmed; `finalists`
    is how many are confirmed at most, besides the baseline.
    """

    baseline: dict[str, Any]
    keep: float = 1.5
    finalists: int = 4


@dataclass(frozen=True)
class Codec:
    """A codec on one core: user bytes per second, and stored bytes per user byte."""

    name: str
    encode: float
    decode: float
    stored: float


@dataclass(frozen=True)
class Screened:
    """What one short trial of a setting took: seconds of all phases, stored bytes per user byte."""

    factors: Mapping[str, Any]
    seconds: float
    stored_share: float


def screen_bytes(rate: float, most: float) -> int:
    """Return the size of a short trial where the fastest phase moves about `rate` bytes a second.

    A multiple of 256 MiB whose phases last half a second or longer, at most `most`.
    """
    wanted = math.ceil(rate * UNSURE * SCREEN_S / STEP) * STEP
    return min(max(wanted, STEP), largest(most))


def confirm_bytes(rate: float, most: float, before: int | None = None) -> int:
    """Return the size that is confirmed with: the least rung on which `rate` lasts a second.

    `before` is the size of an earlier run of the same place: it stays while it lasts nearly as
    long, so that both do the same work.
    """
    if before and before <= most and SAME_WORK[0] <= before / rate <= SAME_WORK[1]:
        return before
    rungs = [rung for rung in LADDER if rung <= most]
    return next((rung for rung in rungs if rung / rate >= CONFIRM_S), largest(most))


def largest(most: float) -> int:
    """Return the largest size that `most` bytes hold: a rung of the ladder, or one below it."""
    return next((size for size in (*LADDER[::-1], *SMALLER) if size <= most), SMALLER[-1])


def bound(codec: Codec, streams: int, cores: int) -> float:
    """Return the least seconds per user byte that a codec on so many streams allows."""
    threads = min(max(streams, 1), cores)
    return (1 / codec.encode + 1 / codec.decode) / threads


def ruled_out(codec: Codec, streams: int, cores: int, leader: float, keep: float) -> str:
    """Return why a setting cannot come within `keep` × the leader; "" where it may.

    `leader` is in seconds per user byte.
    """
    least = bound(codec, streams, cores) / leader
    if least <= keep * BOUND_MARGIN:
        return ""
    threads = min(max(streams, 1), cores)
    plural = "s" if threads > 1 else ""
    speeds = f"{codec.encode * threads / 1e9:.2f} and {codec.decode * threads / 1e9:.2f} GB/s"
    return (
        f"{codec.name} on {threads} core{plural} encodes and decodes {speeds}: "
        f"at least {least:.1f} × the time of the leader"
    )


def again(screened: Sequence[Screened]) -> list[Screened]:
    """Return the settings whose short trial is repeated, the fastest first."""
    by_time = sorted(screened, key=lambda each: each.seconds)
    near = [each for each in by_time if each.seconds <= AGAIN * by_time[0].seconds]
    return near[:MOST_AGAIN]


def order_of_merit(screened: Sequence[Screened], race: Race) -> list[Screened]:
    """Return what may be confirmed, in the order in which it is worth the time.

    First the fastest and what one more trial might put before it, then what stores the least
    (where that is less at all), then the rest within `keep` × the fastest.
    """
    by_time = sorted(screened, key=lambda each: each.seconds)
    if not by_time:
        return []
    best = by_time[0]
    near = [each for each in by_time if each.seconds <= NEAR * best.seconds]
    least = min(by_time, key=lambda each: (round(each.stored_share / WORTH), each.seconds))
    small = [least] if least.stored_share <= (1 - WORTH) * best.stored_share else []
    rest = [each for each in by_time if each.seconds <= race.keep * best.seconds]
    # One that is near, then the small one: of many that are near the first say most.
    ranked = [*near[:2], *small, *near[2:], *rest]
    return [each for at, each in enumerate(ranked) if each not in ranked[:at]]


def finalists(
    screened: Sequence[Screened], race: Race, fits: Callable[[Sequence[Screened]], bool]
) -> list[Screened]:
    """Return the settings to confirm, the fastest first: two always, others if they fit.

    The baseline is not among them unless it is one of the best itself.
    """
    chosen: list[Screened] = []
    for each in order_of_merit(screened, race):
        always = len(chosen) < min(ALWAYS, race.finalists)
        if always or (len(chosen) < race.finalists and fits([*chosen, each])):
            chosen.append(each)
    return sorted(chosen, key=lambda each: each.seconds)
