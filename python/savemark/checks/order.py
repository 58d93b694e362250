"""Whether the order of the trials, or the day they ran on, decided what came out."""

from __future__ import annotations

import math
from itertools import combinations

import polars as pl

from savemark.checks.registry import Evidence, Finding, Remedy, Verdict, check
from savemark.checks.series import in_order
from savemark.checks.wording import count, listing, percent, settings
from savemark.stats import Key, components, median

# A pause as long as this starts another session: another hour, another state of the machine.
PAUSE_NS = 600 * 10**9
ALPHA = 0.05
# Orders that mix the settings of each repeat; `shuffled` is that of runs before there were others.
MIXED = ("balanced", "shuffled")


@check(
    "HC-27",
    "The order is not a factor",
    rule="fixed order, and the repeats of most pairs of settings ran at different times",
    verdict="FLAG",
    doubt="settings ran one after the other, not in turns",
)
def interleaved(evidence: Evidence) -> Finding:
    """Flag settings that ran one after the other: a slow hour would look like a slow setting."""
    order = evidence.run.study.order
    if order in MIXED:
        return Finding(Verdict.OK, f"In {order} order; each repeat holds every setting once.")
    rows = in_order(evidence.trials).with_columns(place=pl.int_range(pl.len()))
    apart, pairs, alone = 0, 0, 0
    for (_label, _phase), part in rows.group_by("label", "phase", maintain_order=True):
        spans = part.group_by("setting", maintain_order=True).agg(
            first=pl.col("place").min(), last=pl.col("place").max(), n=pl.len()
        )
        alone += int((spans["n"] < 2).sum())
        ranges = spans.filter(pl.col("n") > 1).select("first", "last").rows()
        for (a, b), (c, d) in combinations(ranges, 2):
            pairs += 1
            apart += b < c or d < a
    if not pairs:
        one = rows["setting"].n_unique() < 2
        why = "one setting" if one else "no setting ran twice"
        verdict = Verdict.OK if one and not alone else Verdict.UNVERIFIED
        return Finding(verdict, f"Order cannot be told from setting: {why}.")
    if apart * 2 <= pairs:
        return Finding(Verdict.OK, "In a fixed order, but the repeats of the settings interleave.")
    return Finding(
        Verdict.FLAG,
        f"All repeats of one setting ran before those of the next ({apart} of "
        f"{count(pairs, 'pair')}).",
        "Whatever changed with time (a cache, a neighbour, heat) looks like a difference between "
        "settings.",
        "Repeat the whole list instead of each line of it, in balanced order (savemark's default).",
    )


@check(
    "HC-19",
    "One session stands for the next",
    rule="the same setting differs between sessions (pauses of 10 min) by more than `between`, and "
    "sessions differ at all (F test, p < 0.05)",
    verdict="FLAG",
    between=0.1,
    doubt="sessions differ more than repeats",
    remedy=Remedy.IDLE,
)
def sessions(evidence: Evidence) -> Finding:
    """Split the variance of each setting between and within sessions."""
    rows = in_order(evidence.trials.filter(pl.col("started_unix_ns").is_not_null()))
    if rows.is_empty():
        return Finding(Verdict.UNVERIFIED, "When the trials ran is not recorded.")
    session = (pl.col("started_unix_ns").diff() > PAUSE_NS).fill_null(value=False).cum_sum()
    rows = rows.with_columns(session=session)
    total = rows["session"].n_unique()
    if total < 2:
        return Finding(
            Verdict.OK, "One session; intervals say how it went now, not how it goes next week."
        )
    least = evidence.needed("HC-19", "between")
    found, worst = [], 0.0
    groups = rows.group_by("label", "setting", "phase", maintain_order=True)
    for (label, setting, phase), part in groups:
        times = [
            [ns / 1e9 for ns in one["elapsed_ns"].drop_nulls() if ns > 0]
            for _, one in part.group_by("session", maintain_order=True)
        ]
        gap = _gap([each for each in times if each])
        if gap > least:
            found.append(Key(str(label), str(setting), str(phase)))
            worst = max(worst, gap)
    if not found:
        return Finding(Verdict.OK, f"{count(total, 'session')} agree within {percent(least)}.")
    return Finding(
        Verdict.FLAG,
        f"{settings(found)}: the same setting differs by up to {percent(worst)} between "
        f"{listing([count(total, 'session')])}.",
        "What differs between sessions is larger than what differs between repeats.",
        "Quote the spread of the sessions' medians, and repeat the whole run on other days.",
    )


def _gap(times: list[list[float]]) -> float:
    """Largest over smallest median of the sessions less 1; 0 where chance explains it."""
    split = components([[math.log(each) for each in one] for one in times])
    if split is None or split.p >= ALPHA:
        return 0.0
    medians = [median(each) for each in times]
    return max(medians) / min(medians) - 1
