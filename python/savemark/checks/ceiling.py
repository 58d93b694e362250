"""Whether a number is above what the machine can do, or is just the limit that was set for it."""

from __future__ import annotations

import polars as pl

from savemark.checks.device import short_of, traffic
from savemark.checks.registry import Evidence, Finding, Remedy, Verdict, check
from savemark.checks.wording import count, keys, listing, percent, rate, settings
from savemark.records.evidence import READS, WRITES
from savemark.stats import Cell, Key, Limit, PhaseStat
from savemark.stats.bus import bus

# The ceiling may be passed by 5 % before HC-03 speaks.
ABOVE = 1.05
# The workers' rate over that of the program that waits for them (iozone: children over parent).
CHILDREN = 1.2
# How near to a limit is on it.
NEAR = 0.05


@check(
    "HC-03",
    "No faster than the machine",
    rule="a median > 1.05 × the least of the ceilings measured in the run, or a rate > 1.05 × one "
    "that is declared (network, device); workers > 1.2 × the program that waits for them; bytes to "
    "or from GPUs > 1.05 × what the PCIe links of so many carry",
    verdict="BLOCK; FLAG where the device saw the bytes, or the interval of the ceiling itself is "
    "wider than 10 %",
    read_bytes_per_s=None,
    write_bytes_per_s=None,
    doubt="what bounds it was measured too low",
    blocked="faster than the measured ceiling",
    remedy=Remedy.REPEATS,
)
def below_ceiling(evidence: Evidence) -> Finding:
    """Compare each median with the limit that binds it; device bytes say which of them is wrong."""
    impossible = _declared(evidence) or _children(evidence) or _bus(evidence)
    if impossible is not None:
        return impossible
    over: list[tuple[Cell, PhaseStat]] = []
    known = 0
    for result in evidence.results:
        for cell in result.cells:
            for phase in cell.phases.values():
                known += phase.limit is not None
                if (phase.of_limit or 0) > ABOVE:
                    over.append((cell, phase))
    if over:
        return _above(evidence, over)
    if known:
        return Finding(Verdict.OK, f"{count(known, 'median')} at most 5 % above the limit.")
    return Finding(
        Verdict.UNVERIFIED,
        "No disk ceiling was measured in this run.",
        "",
        "Give the study the ceilings `write` and `read`.",
    )


def _rates(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of transfers with `rate` (stored bytes per second) and whether they write."""
    stored = pl.col("stored_bytes").fill_null(pl.col("user_bytes"))
    moved = rows.filter(
        pl.col("phase").is_in(WRITES + READS) & (stored > 0) & (pl.col("elapsed_ns") > 0)
    )
    return moved.with_columns(
        rate=stored / pl.col("elapsed_ns") * 1e9,
        ops=pl.col("io_count") / pl.col("elapsed_ns") * 1e9,
        writes=pl.col("phase").is_in(WRITES),
    )


def _with_limit(evidence: Evidence, identifier: str) -> pl.DataFrame:
    """Rows with the declared limit of their direction, null where none is declared."""
    read, write = (evidence.limit(identifier, f"{way}_bytes_per_s") for way in ("read", "write"))
    top = pl.when(pl.col("writes")).then(pl.lit(write)).otherwise(pl.lit(read))
    return _rates(evidence.trials).with_columns(top=top.cast(pl.Float64))


def _declared(evidence: Evidence) -> Finding | None:
    over = _with_limit(evidence, "HC-03").filter(pl.col("rate") > ABOVE * pl.col("top"))
    if over.is_empty():
        return None
    row = over.sort("rate", descending=True).row(0, named=True)
    found = keys(over)
    return Finding(
        Verdict.BLOCK,
        f"{settings(found)}: {rate(row['rate'])} where {rate(row['top'])} is the most that the "
        "network or the device can do, as declared.",
        "The bytes were in a cache when the clock stopped, or the time is wrong.",
        "Flush inside the time, drop caches before reading, and measure for longer.",
        found,
    )


def _children(evidence: Evidence) -> Finding | None:
    ratio = pl.col("outer_elapsed_ns") / pl.col("elapsed_ns")
    over = evidence.imported.with_columns(ratio=ratio).filter(pl.col("ratio") > CHILDREN)
    if over.is_empty():
        return None
    row = over.sort("ratio", descending=True).row(0, named=True)
    found = keys(over)
    return Finding(
        Verdict.BLOCK,
        f"{settings(found)}: the workers claim {row['ratio']:.2g} × the rate of the program that "
        f"waits for them ({row['phase']}).",
        "The workers stop their clocks while the kernel still writes.",
        "Quote the rate of the waiting program (iozone: the parent's).",
        found,
    )


def _bus(evidence: Evidence) -> Finding | None:
    """Compare bytes to and from GPUs with what their links to the machine can carry."""
    link = bus(evidence.run.host)
    if link is None:
        return None
    rows = _rates(evidence.live.filter(pl.col("gpu_count") > 0))
    over = rows.filter(pl.col("rate") > ABOVE * link.rate * pl.col("gpu_count"))
    if over.is_empty():
        return None
    row, found = over.sort("rate", descending=True).row(0, named=True), keys(over)
    top = rate(link.rate * row["gpu_count"])
    return Finding(
        Verdict.BLOCK,
        f"{settings(found)}: {rate(row['rate'])} where {count(row['gpu_count'], 'GPU')} on "
        f"{link.name} can take {top}.",
        "The bytes did not all pass the link, or the time is wrong.",
        "Measure for longer, and look whether reads came from a cache of the GPU's library.",
        found,
    )


def _above(evidence: Evidence, over: list[tuple[Cell, PhaseStat]]) -> Finding:
    rows = traffic(evidence.trials)
    whole = set(keys(rows)) - set(keys(short_of(rows)))
    unproven = [pair for pair in over if _key(pair) not in whole]
    firm = [pair for pair in unproven if pair[1].limit and pair[1].limit.firm]
    cell, phase = max(firm or unproven or over, key=lambda pair: pair[1].of_limit or 0)
    assert phase.limit is not None
    seen = (
        f"{settings([_key(pair) for pair in over])}: faster than the measured ceiling by more than "
        f"5 % (the {phase.name} of {cell.setting} reaches {percent(phase.of_limit or 0)} of "
        f"{phase.limit.name})."
    )
    again = (
        "Measure the ceiling again with more repeats (--repeats 10) on an otherwise idle machine."
    )
    if firm:
        return Finding(
            Verdict.BLOCK,
            seen,
            "The data did not reach the disk, or the ceiling was measured low; no device counters "
            "show which.",
            "Use direct I/O on a local disk, or " + again[0].lower() + again[1:],
            tuple(_key(pair) for pair in firm),
        )
    cause = "The device counters saw the bytes, so the ceiling was measured low."
    if unproven:
        cause = _loose(phase.limit)
    return Finding(Verdict.FLAG, seen, cause, again)


def _key(pair: tuple[Cell, PhaseStat]) -> Key:
    return Key(pair[0].label, pair[0].setting, pair[1].name)


def _loose(limit: Limit) -> str:
    """Why a ceiling forbids nothing."""
    if limit.width is None:
        return "That ceiling was measured once, so it may be low by chance."
    return (
        f"That ceiling is itself known to no better than {percent(limit.width)}, from its lowest "
        "to its highest, so it may have been measured low."
    )


@check(
    "HC-08",
    "The storage is measured, not a limit set for it",
    rule="median rate or IOPS within 5 % of the control group's io.max (v1: blkio.throttle) or of "
    "a declared provisioned limit",
    verdict="NOTE",
    read_bytes_per_s=None,
    write_bytes_per_s=None,
    note="a limit is set for the device",
)
def uncapped(evidence: Evidence) -> Finding:
    """Compare medians with the limits that are in force on the device."""
    rows = _with_limit(evidence, "HC-08")
    if rows.is_empty():
        return Finding(Verdict.OK, "Not applicable: nothing was transferred.")
    way = pl.when(pl.col("writes"))
    group = way.then("limit_write_bytes_per_s").otherwise("limit_read_bytes_per_s")
    ops = way.then("limit_write_ops_per_s").otherwise("limit_read_ops_per_s")
    each = (
        rows.with_columns(
            cap=pl.min_horizontal(group, pl.col("top")).cast(pl.Float64),
            ops_cap=ops.cast(pl.Float64),
        )
        .group_by("label", "setting", "phase", maintain_order=True)
        .agg(pl.col("rate", "ops").median(), pl.col("cap", "ops_cap").min())
    )
    near = ((pl.col("rate") / pl.col("cap") - 1).abs() <= NEAR).fill_null(value=False)
    near_ops = ((pl.col("ops") / pl.col("ops_cap") - 1).abs() <= NEAR).fill_null(value=False)
    capped = each.filter(near | near_ops)
    limits = each.filter(pl.col("cap").is_not_null() | pl.col("ops_cap").is_not_null())
    if capped.is_empty():
        if limits.is_empty() and evidence.live.is_empty():
            return Finding(Verdict.UNVERIFIED, "What limits were in force is not recorded.")
        which = "No limit is set" if limits.is_empty() else "No median is at the limit that is set"
        return Finding(Verdict.OK, f"{which} for the device.")
    caps = [rate(cap) for cap in capped["cap"].drop_nulls()]
    caps += [f"{ops:.0f} IOPS" for ops in capped["ops_cap"].drop_nulls()]
    return Finding(
        Verdict.NOTE,
        f"{settings(keys(capped))}: you measured the cap ({listing(caps)}), not the device.",
        "The control group's or the provider's limit is what binds.",
        "Quote it as the cap, or lift it (io.max, blkio.throttle, a larger volume) and run again.",
    )
