"""Whether the phases lasted long enough, and did enough, to mean something."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from savemark.checks.registry import Evidence, Finding, Remedy, Verdict, check
from savemark.checks.wording import count, keys, listing, percent, settings
from savemark.records.head import Host
from savemark.stats import Key

# The catalogue says 10 s (IO500: 300 s), and that what took less than 1 s is no measurement.
LONG_ENOUGH_S = 10
BLOCK_BELOW_S = 1
# The state, the room to restore it into, and the rest of the machine.
MEMORY_SHARE = 3
# What makes a workload longer that has no --size.
LONGER = {
    "shared_file": "--segments",
    "file_per_process": "--segments",
    "metadata": "--items",
    "iterate": "--iterations",
    "copy": "--items",
    "io500": "--block-size, --segments and --phase-deadline",
}
# A tick of the clock against the median.
TICK_SHARE = 0.01


@check(
    "HC-13",
    "Long enough",
    rule="median of a phase shorter than `seconds` (IO500: 300), or fewer than `operations` I/Os "
    "per worker; shorter than `block_below`: not shown",
    verdict="BLOCK below `block_below`; FLAG below `seconds`",
    seconds=LONG_ENOUGH_S,
    block_below=BLOCK_BELOW_S,
    operations=30,
    blocked="phases are too short to be a measurement",
    remedy=Remedy.LONGER,
)
def long_enough(evidence: Evidence) -> Finding:
    """Block medians of a moment, flag short ones and phases that did too little."""
    phases = [
        Timed(phase.seconds.median, phase.user_bytes, Key(cell.label, cell.setting, phase.name))
        for result in evidence.results
        for cell in result.cells
        for phase in cell.phases.values()
    ]
    if not phases:
        return Finding(Verdict.UNVERIFIED, "No phase finished.")
    least, few = evidence.needed("HC-13", "seconds"), _few(evidence)
    limit = min(evidence.needed("HC-13", "block_below"), least)  # what is long enough is shown
    if moments := [phase for phase in phases if phase.seconds < limit]:
        return _moments(evidence, moments, len(phases), limit, few)
    short = [phase for phase in phases if phase.seconds < least]
    if short:
        return _short(evidence, short, len(phases), least, few)
    if few:
        return Finding(
            Verdict.FLAG,
            few,
            "Starting and ending weigh more than they would in a long phase.",
            "Use a larger --size, or fewer streams or workers.",
        )
    return Finding(Verdict.OK, f"Each of {count(len(phases), 'median')} is {least:g} s or longer.")


class Timed(NamedTuple):
    """How long a phase lasts."""

    seconds: float  # its median
    user_bytes: int
    key: Key


def _moments(
    evidence: Evidence, phases: list[Timed], total: int, limit: float, few: str
) -> Finding:
    blocked = tuple(short.key for short in phases)
    longer = _fix(evidence, min(phases), limit)
    return Finding(
        Verdict.BLOCK,
        f"{len(phases)} of {total} median phases are shorter than {limit:g} s ({_which(blocked)}). "
        f"{few}".strip(),
        "In so short a time starting, ending and caches weigh as much as the storage.",
        f"{longer} If a moment is what you want to know, say so in the study: "
        "`checks: {HC-13: {block_below: 0}}`.",
        blocked,
    )


def _short(evidence: Evidence, phases: list[Timed], total: int, least: float, few: str) -> Finding:
    shortest = min(phases)
    very = sum(short.seconds < BLOCK_BELOW_S for short in phases)
    below = f"{len(phases)} of {total} median phases are shorter than {least:g} s"
    if very and least > BLOCK_BELOW_S:
        below += f", {very} shorter than {BLOCK_BELOW_S} s, which this study allows"
    return Finding(
        Verdict.FLAG,
        f"{below} (shortest: {shortest.key.phase} of {shortest.key.setting}, "
        f"{shortest.seconds:.2f} s). {few}".strip(),
        "A burst credit, a drive's fast cache or a start-up cost weighs more than it would in a "
        "long save.",
        _fix(evidence, shortest, least),
    )


def _which(phases: tuple[Key, ...]) -> str:
    """Each phase with its settings: `save of none × 4, zstd × 4; restore of none × 4`."""
    names = dict.fromkeys(key.phase for key in phases)
    return "; ".join(
        f"{name} of {settings([key for key in phases if key.phase == name], 3)}" for name in names
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


def _fix(evidence: Evidence, short: Timed, least: float) -> str:
    """What makes the phases longer, in the options of the workloads that ran."""
    workloads = set(evidence.live["workload"].drop_nulls())
    flags = {flag: None for name, flag in LONGER.items() if name in workloads}
    counted = " and ".join(f"more {flag}" for flag in flags)
    if counted and workloads <= set(LONGER):
        return f"For a number to quote, use {counted}."
    sized = _size(short.user_bytes, short.seconds, least, evidence.run.host)
    return f"{sized} Where that is no option, use {counted}." if counted else sized


def _size(size: int, seconds: float, least: float, host: Host) -> str:
    """A size that lasts long enough, or the largest that memory holds: the state is there twice."""
    if not size:
        return (
            "For a number to quote, measure again with a larger state (its size is not recorded)."
        )
    wanted = size * least / seconds
    memory = host.memory.available_bytes
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
    doubt="the clock is too coarse for these times",
    remedy=Remedy.LONGER,
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
    blocked="there was nothing to do",
    note="more threads than processors",
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
    cpu = evidence.run.host.cpu
    cores = cpu.available or cpu.logical
    most = evidence.needed("HC-26", "threads_per_core")
    if cores:
        here = pl.col("worker_count") / pl.col("node_count").fill_null(1)
        crowded = rows.filter(here > most * cores)
        if not crowded.is_empty():
            return Finding(
                Verdict.FLAG,
                f"{listing(key.setting for key in keys(crowded))}: more than {most:g} threads per "
                "core.",
                "They take turns, and the scheduler is part of the time.",
                "Use fewer streams or workers, with a higher queue depth.",
            )
    known = rows["io_count"].drop_nulls()
    if known.is_empty() and rows["user_bytes"].drop_nulls().is_empty():
        return Finding(Verdict.UNVERIFIED, "Neither bytes nor operations are recorded.")
    return Finding(Verdict.OK, f"Bytes were moved in each of {count(len(rows), 'phase')}.")
