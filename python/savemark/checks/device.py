"""Whether the block device saw the bytes that the trial says it moved."""

from __future__ import annotations

import polars as pl

from savemark.checks.registry import Evidence, Finding, Remedy, Verdict, check
from savemark.checks.wording import count, keys, percent, rate, settings
from savemark.records.evidence import READS, WRITES
from savemark.stats import Key

# The catalogue's limit for HC-02.
RECEIVED = 0.90
# Of two meters of the same bytes, HC-37; below so many bytes, metadata and journal explain it.
AGREE = 0.05
METADATA_BYTES = 32 * 2**20
# Time until the data is out over the time that is claimed, HC-02 for imported writes.
OUTER = 1.2


def traffic(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with device evidence, and what passed in the direction of the phase."""
    writes = pl.col("phase").is_in(WRITES)
    moved = pl.when(writes).then(pl.col("device_written_bytes")).otherwise("device_read_bytes")
    other = pl.when(writes).then(pl.col("device_read_bytes")).otherwise("device_written_bytes")
    counted = rows.filter(
        pl.col("device_name").is_not_null()
        & (pl.col("stored_bytes") > 0)
        & pl.col("phase").is_in(WRITES + READS)
    )
    return counted.with_columns(moved=moved, other=other)


def short_of(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows whose bytes did not pass the device."""
    # A solver says itself what of its saves is durable: more need not have passed the device.
    claimed = pl.coalesce("durable_bytes", "stored_bytes")
    return rows.filter(pl.col("moved") < RECEIVED * claimed)


@check(
    "HC-02",
    "The device received the bytes",
    rule="Δ /proc/diskstats less than 90 % of the bytes claimed; imported: a buffered write that "
    "took 1.2 × as long until its data was out, or faster than the disk's own ceiling",
    verdict="BLOCK",
    blocked="the device did not receive the bytes",
)
def received(evidence: Evidence) -> Finding:
    """Block what was counted at the device at less than 90 % of the bytes claimed."""
    early = _early(evidence)
    if early is not None:
        return early
    # A read that was asked to be warm, and says so, comes from memory by design.
    warm = pl.col("phase").is_in(READS) & (pl.col("cache_wanted") == "warm").fill_null(value=False)
    rows = traffic(evidence.trials.filter(~warm))
    if rows.is_empty():
        return Finding(
            Verdict.UNVERIFIED,
            "No counters of a block device belong to this target (memory, network or FUSE "
            "filesystem), so nothing independent shows that the bytes reached the storage.",
        )
    short = short_of(rows)
    if short.is_empty():
        least = float((rows["moved"] / rows["stored_bytes"]).min() or 0)  # type: ignore[arg-type]
        return Finding(
            Verdict.OK,
            f"/proc/diskstats of {rows['device_name'][0]} saw at least {percent(least)} of the "
            f"stored bytes in each of {count(len(rows), 'phase')}.",
        )
    worst = short.row(0, named=True)
    found = keys(short)
    return Finding(
        Verdict.BLOCK,
        f"{settings(found)}: in the {worst['phase']} of repeat {worst['repeat']} the device "
        f"{worst['device_name']} moved {percent(worst['moved'] / worst['stored_bytes'])} of the "
        f"stored bytes ({count(len(short), 'phase')} below 90 %).",
        "The rest stayed in a cache.",
        "Use a storage with direct I/O (storage: uring or posix with direct: true).",
        found,
    )


def _early(evidence: Evidence) -> Finding | None:
    """Imported writes that were called done before their data can have been on the disk."""
    rows = evidence.imported.filter(pl.col("phase").is_in(WRITES))
    loose = rows.filter(pl.col("contract").fill_null("unknown").is_in(["none", "unknown"]))
    outer = loose.filter(pl.col("outer_elapsed_ns") > OUTER * pl.col("elapsed_ns"))
    if not outer.is_empty():
        share = outer.with_columns(share=pl.col("elapsed_ns") / pl.col("outer_elapsed_ns"))
        row = share.sort("share").row(0, named=True)
        return Finding(
            Verdict.BLOCK,
            f"{settings(keys(outer))}: the {row['phase']} was called done after "
            f"{percent(row['share'])} of the time that its data needed.",
            "The rest was in the page cache when the clock of the workers stopped.",
            "Use the time that includes the write-back (iozone: the parent's), or run it with a "
            "flush inside the time (iozone -e).",
            keys(outer),
        )
    over = _over_disk(evidence, loose)
    if over is None:
        return None
    found, seen = over
    return Finding(
        Verdict.BLOCK,
        f"{settings(found)}: {seen}.",
        "A buffered write faster than the disk stayed in the page cache.",
        "Run it again with a flush inside the time.",
        found,
    )


def _over_disk(evidence: Evidence, loose: pl.DataFrame) -> tuple[tuple[Key, ...], str] | None:
    rows = loose.filter(pl.col("stored_bytes").fill_null(pl.col("user_bytes")) > 0)
    tops = {r.label: r.ceilings["write"].rate for r in evidence.results if "write" in r.ceilings}
    stored = pl.col("stored_bytes").fill_null(pl.col("user_bytes"))
    speed = stored / pl.col("elapsed_ns") * 1e9
    top = pl.col("label").replace_strict(tops, default=None, return_dtype=pl.Float64)
    fast = rows.with_columns(speed=speed, top=top).filter(pl.col("speed") > OUTER * pl.col("top"))
    if fast.is_empty():
        return None
    row = fast.sort("speed", descending=True).row(0, named=True)
    return keys(fast), f"{rate(row['speed'])} where the disk itself writes {rate(row['top'])}"


@check(
    "HC-37",
    "Independent meters agree",
    rule="bytes by the harness, by the device and by the tool's own second meter differ by > 5 %",
    verdict="FLAG",
    doubt="the device moved other bytes, too",
    remedy=Remedy.IDLE,
)
def agree(evidence: Evidence) -> Finding:
    """Compare two counts of the same bytes; HC-02 and HC-31 judge the gross differences."""
    rows = traffic(evidence.live.filter(pl.col("direct").fill_null(value=False)))
    off = (pl.col("moved") - pl.col("stored_bytes")).abs()
    apart = rows.filter((off > AGREE * pl.col("stored_bytes")) & (off > METADATA_BYTES))
    meters = evidence.imported.filter(pl.col("outer_elapsed_ns").is_not_null())
    wide = meters.filter(
        (pl.col("outer_elapsed_ns") - pl.col("elapsed_ns")).abs() > AGREE * pl.col("elapsed_ns")
    )
    if not apart.is_empty():
        row = apart.with_columns(off=off / pl.col("stored_bytes")).sort("off").row(-1, named=True)
        return Finding(
            Verdict.FLAG,
            f"{settings(keys(apart))}: savemark and {row['device_name']} differ by "
            f"{percent(row['off'])} about the bytes of {count(len(apart), 'phase')}.",
            "Somebody else used the disk, or not all bytes went to it.",
            "Run it again on an otherwise idle disk; see HC-02 and HC-31.",
        )
    if not wide.is_empty():
        return Finding(
            Verdict.FLAG,
            f"{settings(keys(wide))}: the tool's two clocks for the same work differ by more than "
            "5 %.",
            "One of them leaves part of the work out.",
            "Quote the longer time, and say what the shorter one leaves out.",
        )
    if rows.is_empty() and meters.is_empty():
        return Finding(Verdict.UNVERIFIED, "There is only one meter.")
    return Finding(Verdict.OK, f"Two meters agree in {count(len(rows) + len(meters), 'phase')}.")
