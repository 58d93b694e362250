"""Whether the repeats, and the seconds inside them, are all of one kind."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from savemark.checks.registry import Evidence, Finding, Remedy, Verdict, check
from savemark.checks.wording import listing, percent
from savemark.records.timelines import timelines
from savemark.stats import change_point, mann_kendall, median, two_modes

ALPHA = 0.01
# Tests on longer series take seconds and find what nobody would see.
LONGEST = 200
# SNIA's performance test specification 2.0.2: within a window, the range of the rounds is at most
# 20 % and the slope's excursion at most 10 % of their average. Five rounds.
ROUNDS = 5
RANGE = 0.20
SLOPE = 0.10
# Intervals of a timeline below which a phase has no inside to look at.
INTERVALS = 50

Where = tuple[str, str]  # (label, phase)


def in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows in the order in which they ran, by the clock where it was recorded."""
    return rows.sort("started_unix_ns", "position", nulls_last=True)


def _series(rows: pl.DataFrame) -> Iterator[tuple[Where, list[float]]]:
    """Per target and phase: each time over its setting's median, in the order they were taken.

    So all settings of a run make one series, and what happened to the machine shows in it however
    few repeats a setting has.
    """
    middle = pl.col("elapsed_ns").median().over("label", "setting", "phase")
    repeats = pl.len().over("label", "setting", "phase")
    scaled = in_order(rows.filter((pl.col("elapsed_ns") > 0) & (repeats > 1))).with_columns(
        scaled=pl.col("elapsed_ns") / middle
    )
    for (label, phase), part in scaled.group_by("label", "phase", maintain_order=True):
        yield (str(label), str(phase)), part["scaled"].to_list()


def _shorter(values: list[float]) -> list[float]:
    """At most `LONGEST` medians of consecutive values."""
    step = -(-len(values) // LONGEST)
    return [median(values[i : i + step]) for i in range(0, len(values), step)]


@check(
    "HC-15",
    "The repeats are of one kind",
    rule="across trials: change point (Pettitt), trend (Mann-Kendall) or two modes, p < 0.01 "
    "(Bonferroni) and more than `change`; within long phases: PTS's 20 % range, 10 % slope",
    verdict="FLAG",
    change=0.1,
    doubt="the speed changed during the run",
    remedy=Remedy.IDLE,
)
def stationary(evidence: Evidence) -> Finding:
    """Test the trials, in the order in which they ran, and the inside of long phases."""
    least = evidence.needed("HC-15", "change")
    series = [(where, values) for where, values in _series(evidence.trials) if len(values) >= 6]
    alpha = ALPHA / max(1, 3 * len(series))
    seen = [text for where, values in series if (text := _moved(where, values, alpha, least))]
    inside = _inside(evidence)
    if not seen and not inside:
        if not series:
            return Finding(
                Verdict.UNVERIFIED, "Fewer than six trials of a phase: a series needs more."
            )
        long = max(len(values) for _, values in series)
        return Finding(
            Verdict.OK, f"No change, trend or second mode above {percent(least)} in {long} trials."
        )
    return Finding(
        Verdict.FLAG,
        f"{listing([*seen, *inside], 3)}.",
        "Something else changed meanwhile: another job, a burst credit, a cache that filled, heat.",
        "Look at the times in the order they were taken, find what changed, and run again; do not "
        "quote a mean or a maximum of them.",
    )


def _moved(where: Where, values: list[float], alpha: float, least: float) -> str:
    """What happened to one series, in words; empty where nothing did."""
    phase = where[1]
    short = _shorter(values)
    change = change_point(short)
    if change is not None and change.p < alpha:
        size = change.after_median / change.before_median - 1
        if abs(size) > least:
            place = change.after * len(values) // len(short)
            word = "slower" if size > 0 else "faster"
            return f"{phase}: {percent(abs(size))} {word} after trial {place} of {len(values)}"
    modes = two_modes(values[:: -(-len(values) // LONGEST)])
    if modes is not None and modes.p < alpha and modes.gap > least:
        slow = len(modes.high) / (len(modes.high) + len(modes.low))
        return f"{phase}: two modes, {percent(slow)} of the trials {percent(modes.gap)} slower"
    trend = mann_kendall(short)
    drift = trend.slope * (len(short) - 1)
    if trend.p < alpha and abs(drift) > least:
        word = "slower" if drift > 0 else "faster"
        return f"{phase}: {percent(abs(drift))} {word} from first to last"
    return ""


def _inside(evidence: Evidence) -> list[str]:
    """Phases whose rate was not steady in most repeats, by the PTS window over the whole phase."""
    lines = timelines(evidence.run).filter(pl.col("role") == "trial")
    verdicts: dict[str, list[bool]] = {}
    each = lines.group_by("label", "phase", "index", maintain_order=True).agg(
        pl.col("bytes").sort_by("start_ns")
    )
    # The last interval is not whole.
    for name, phase, _, counts in each.filter(pl.col("bytes").list.len() > INTERVALS).iter_rows():
        verdicts.setdefault(f"{phase} on {name}", []).append(not _steady(counts[:-1]))
    return [
        f"{what}: the rate inside a phase varies by more than {percent(RANGE)}"
        for what, bad in verdicts.items()
        if sum(bad) > len(bad) / 2
    ]


def _steady(rates: list[int]) -> bool:
    size = len(rates) / ROUNDS
    parts = [rates[round(i * size) : round((i + 1) * size)] for i in range(ROUNDS)]
    means = [sum(part) / len(part) for part in parts]
    average = sum(means) / ROUNDS
    if average == 0:
        return True
    centre = (ROUNDS - 1) / 2
    slope = sum((i - centre) * m for i, m in enumerate(means)) / sum(
        (i - centre) ** 2 for i in range(ROUNDS)
    )
    excursion = abs(slope) * (ROUNDS - 1)
    return max(means) - min(means) <= RANGE * average and excursion <= SLOPE * average


@check(
    "HC-34",
    "Not only a burst",
    rule="rate falls by more than `fall` over the run; or the run is shorter than a declared burst "
    "(`seconds`)",
    verdict="FLAG",
    fall=0.3,
    seconds=None,
    doubt="the speed fell like that of a burst",
    remedy=Remedy.IDLE,
)
def no_burst(evidence: Evidence) -> Finding:
    """Find rates that fall as the run goes on, and runs that end before a burst does."""
    span_s = _span_s(evidence.trials)
    declared = evidence.limit("HC-34", "seconds")
    if declared is not None and span_s is not None and span_s < declared:
        return Finding(
            Verdict.FLAG,
            f"The run took {span_s:.0f} s, and the volume may burst for {declared:.0f} s.",
            "What was measured is the burst, not what lasts.",
            f"Measure for more than {declared:.0f} s, or after the credit is spent.",
        )
    fall = evidence.needed("HC-34", "fall")
    series = [(where, values) for where, values in _series(evidence.trials) if len(values) >= 6]
    fallen = []
    for (_, phase), values in series:
        short = _shorter(values)
        trend = mann_kendall(short)
        third = max(1, len(short) // 3)
        slower = median(short[-third:]) / median(short[:third]) - 1
        if trend.p < ALPHA / len(series) and slower > fall:
            fallen.append(f"{phase} {percent(slower)} slower in the last third than in the first")
    if fallen:
        return Finding(
            Verdict.FLAG,
            f"{listing(fallen)}.",
            "A burst credit ran out, or a drive's fast cache filled.",
            "Run until the rate is steady, and quote that; say how long the burst lasts.",
        )
    if not series or span_s is None:
        return Finding(Verdict.UNVERIFIED, "Too few trials to see a rate fall.")
    moved = int(evidence.trials["stored_bytes"].fill_null(0).sum()) / 1e9
    return Finding(
        Verdict.OK,
        f"No fall over {span_s:.0f} s and {moved:.3g} GB; a longer burst would not be seen.",
    )


def _span_s(rows: pl.DataFrame) -> float | None:
    times = rows["started_unix_ns"].drop_nulls()
    if len(times) < 2:
        return None
    last = int(rows["elapsed_ns"].drop_nulls().max() or 0)  # type: ignore[arg-type]
    return (int(times.max()) - int(times.min()) + last) / 1e9  # type: ignore[arg-type]
