"""Whether the phases lasted long enough, and did enough, to mean something."""

from __future__ import annotations

from typing import Any

import polars as pl

from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import count, keys, listing, percent, settings

# The catalogue says 10 s (IO500: 300 s). `quick` is shorter by design, which is said once.
LONG_ENOUGH_S = 10
VERY_SHORT_S = 1
# The state, the room to restore it into, and the rest of the machine.
MEMORY_SHARE = 3
# A tick of the clock against the median.
TICK_SHARE = 0.01


@check(
    "HC-13",
    "Long enough",
    rule="median of a phase shorter than `seconds` (IO500: 300), or fewer than `operations` I/Os "
    "per worker",
    verdict="FLAG",
    seconds=LONG_ENOUGH_S,
    operations=30,
)
def long_enough(evidence: Evidence) -> Finding:
    """Flag, in one sentence, phases whose median is below the limit, or that did too little."""
    medians = [
        (phase.seconds.median, phase.user_bytes, f"{phase.name} of {cell.setting}")
        for result in evidence.results
        for cell in result.cells
        for phase in cell.phases.values()
    ]
    if not medians:
        return Finding(Verdict.UNVERIFIED, "No phase finished.")
    least = evidence.needed("HC-13", "seconds")
    short = [each for each in medians if each[0] < least]
    few = _few(evidence)
    if not short and not few:
        return Finding(
            Verdict.OK, f"Each of {count(len(medians), 'median')} is {least:g} s or longer."
        )
    if not short:
        return Finding(
            Verdict.FLAG,
            few,
            "Starting and ending weigh more than they would in a long phase.",
            "Use a larger --size, or fewer streams or workers.",
        )
    seconds, size, name = min(short)
    very = sum(each[0] < VERY_SHORT_S for each in short)
    below = f"{len(short)} of {len(medians)} median phases are shorter than {least:g} s"
    below += f", {very} shorter than 1 s" if very and least > VERY_SHORT_S else ""
    return Finding(
        Verdict.FLAG,
        f"{below} (shortest: {name}, {seconds:.2f} s). {few}".strip(),
        "A burst credit, a drive's fast cache or a start-up cost weighs more than it would in a "
        "long save.",
        _fix(size, seconds, least, evidence.run.host),
    )


def _few(evidence: Evidence) -> str:
    """Phases in which a worker did next to nothing, in a sentence."""
    least = evidence.needed("HC-13", "operations")
    each = pl.col("io_count") / pl.col("worker_count")
    rows = evidence.trials.filter(each < least).with_columns(each=each)
    if rows.is_empty():
        return ""
    fewest = float(rows["each"].min() or 0)  # type: ignore[arg-type]
    return f"{settings(keys(rows))}: fewer than {least:g} I/Os per worker (down to {fewest:.0f})."


def _fix(size: int, seconds: float, least: float, host: dict[str, Any]) -> str:
    """A size that lasts long enough, or the largest that memory holds: the state is there twice."""
    if not size:
        return (
            "For a number to quote, measure again with a larger state (its size is not recorded)."
        )
    wanted = size * least / seconds
    memory = (host.get("memory") or {}).get("available_bytes")
    most = memory / MEMORY_SHARE if memory else wanted
    gib = max(1, round(min(wanted, most) / 2**30))
    lasts = gib * 2**30 * seconds / size
    why = "" if most >= wanted else "; more does not fit into memory"
    return f"For a number to quote, use --size {gib}GiB (about {lasts:.0f} s at this speed{why})."


@check(
    "HC-14",
    "The clock is fine enough",
    rule="a tick of the clock is more than 1 % of a median",
    verdict="FLAG",
)
def fine_clock(evidence: Evidence) -> Finding:
    """Compare the clock's step with the times taken by it."""
    rows = evidence.trials.filter(pl.col("elapsed_ns") > 0)
    known = rows.filter(pl.col("timer_resolution_ns") > 0)
    if known.is_empty():
        return Finding(Verdict.UNVERIFIED, "The step of the clock is not recorded.")
    each = known.group_by("label", "setting", "phase", maintain_order=True).agg(
        share=pl.col("timer_resolution_ns").max() / pl.col("elapsed_ns").median()
    )
    coarse = each.filter(pl.col("share") > TICK_SHARE)
    tick = int(known["timer_resolution_ns"].max() or 0)  # type: ignore[arg-type]
    if coarse.is_empty():
        return Finding(Verdict.OK, f"A tick is at most {tick} ns, below 1 % of each median.")
    most = float(coarse["share"].max() or 0)  # type: ignore[arg-type]
    return Finding(
        Verdict.FLAG,
        f"{settings(keys(coarse))}: a tick of {tick / 1e6:g} ms is up to {percent(most)} of the "
        "median.",
        "Differences of a tick or two are rounding.",
        "Use a finer clock (`date +%s.%N`, hyperfine, savemark), or measure for longer.",
    )


@check(
    "HC-26",
    "Every trial had something to do",
    rule="0 bytes and 0 operations, or more workers than operations; more threads than "
    "`threads_per_core` × cores",
    verdict="BLOCK; FLAG for too many threads",
    threads_per_core=16,
)
def not_empty(evidence: Evidence) -> Finding:
    """Block phases that moved nothing, or whose workers had nothing to share."""
    rows = evidence.trials
    if rows.is_empty():
        return Finding(Verdict.UNVERIFIED, "No phase finished.")
    nothing = (pl.col("user_bytes").fill_null(-1) == 0) & (pl.col("io_count").fill_null(0) == 0)
    nothing |= pl.col("io_count").fill_null(-1) == 0
    idle = pl.col("io_count") < pl.col("worker_count")
    for wrong, seen in (
        (nothing, "no byte was moved and no operation done"),
        (idle, "more workers than operations"),
    ):
        found = rows.filter(wrong.fill_null(value=False))
        if not found.is_empty():
            return Finding(
                Verdict.BLOCK,
                f"{settings(keys(found))}: {seen} in {count(len(found), 'phase')}.",
                "A size or a count was rounded down to nothing, or shared among too many.",
                "Use a larger --size or more files, or fewer streams or workers.",
                keys(found),
            )
    return _threads(evidence, rows)


def _threads(evidence: Evidence, rows: pl.DataFrame) -> Finding:
    cpu = evidence.run.host.get("cpu") or {}
    cores = cpu.get("available") or cpu.get("logical")
    most = evidence.needed("HC-26", "threads_per_core")
    if cores:
        crowded = rows.filter(pl.col("worker_count") > most * cores)
        if not crowded.is_empty():
            return Finding(
                Verdict.FLAG,
                f"{listing(s for _, s, _ in keys(crowded))}: more than {most:g} threads per core.",
                "They take turns, and the scheduler is part of the time.",
                "Use fewer streams or workers, with a higher queue depth.",
            )
    known = rows["io_count"].drop_nulls()
    if known.is_empty() and rows["user_bytes"].drop_nulls().is_empty():
        return Finding(Verdict.UNVERIFIED, "Neither bytes nor operations are recorded.")
    return Finding(Verdict.OK, f"Bytes were moved in each of {count(len(rows), 'phase')}.")
