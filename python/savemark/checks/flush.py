"""Whether a write was durable when its clock stopped, and whether all writes promise the same."""

from __future__ import annotations

import re

import polars as pl

from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import count, keys, listing, settings
from savemark.records.evidence import WRITES

PROMISES = {
    "none": "nothing (buffered)",
    "unknown": "unknown",
    "each": "a sync after each write",
    "end": "one sync at the end",
    "group": "a sync now and then",
    "rename": "sync, rename, sync of the directory",
    "shared": "a sync that threads share",
    "generations": "one sync, of two files in turn",
    "behind": "sync, rename, sync of the directory, one save later",
}
# Their flushes are counted, on the whole disk and on nothing else (Documentation/block/stat.rst:
# not tracked for partitions; drivers without a request queue, as dm and md, do not count them).
COUNTED = r"^(vd[a-z]+|sd[a-z]+|xvd[a-z]+|nvme\d+n\d+)$"
LOOSE_MOUNT = r"(^|,)(nobarrier|barrier=0)(,|$)"


def _writes(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("phase").is_in(WRITES))


@check(
    "HC-01",
    "Flush is inside the time of a write",
    rule="no O_DIRECT or O_SYNC, and no fsync inside the timed region",
    verdict="FLAG; NOTE for direct I/O without a flush",
    doubt="the flush is not inside the time",
)
def flushed(evidence: Evidence) -> Finding:
    """Flag writes whose clock stopped before anything made them durable, or may have."""
    rows = _writes(evidence.trials)
    if rows.is_empty():
        return Finding(Verdict.OK, "Not applicable: nothing was written.")
    # An imported file that does not say so has not shown it.
    contract = pl.col("contract").fill_null(
        pl.when(pl.col("origin") == "imported").then(pl.lit("unknown"))
    )
    rows = rows.with_columns(contract=contract)
    loose = rows.filter(pl.col("contract").is_in(["none", "unknown"]))
    direct = loose.filter(pl.col("direct").fill_null(value=False))
    buffered = loose.filter(~pl.col("direct").fill_null(value=False))
    if not buffered.is_empty():
        return _buffered(buffered)
    if not direct.is_empty():
        return Finding(
            Verdict.NOTE,
            f"{settings(keys(direct))}: direct writes without a flush at the end.",
            "The bytes reached the device and may still be in its cache.",
            "Use sync: end for a time that includes the flush.",
        )
    if rows["contract"].null_count():
        return Finding(Verdict.UNVERIFIED, "When the writes were durable is not recorded.")
    kinds = listing(PROMISES.get(kind, kind) for kind in rows["contract"].unique().sort())
    return Finding(Verdict.OK, f"{count(len(rows), 'write')}, inside the time: {kinds}.")


def _buffered(rows: pl.DataFrame) -> Finding:
    found = keys(rows)
    none = rows.filter(pl.col("contract") == "none")
    seen = "no flush is inside the time" if len(none) else "whether a flush is inside is unknown"
    both = ""
    outer = rows.filter(pl.col("outer_elapsed_ns") > 0)
    if not outer.is_empty():
        worst = outer.with_columns(ratio=pl.col("outer_elapsed_ns") / pl.col("elapsed_ns"))
        row = worst.sort("ratio", descending=True).row(0, named=True)
        both = f" Until the data was out it took {row['ratio']:.2g} times as long ({row['phase']})."
    return Finding(
        Verdict.FLAG,
        f"{settings(found)}: buffered writes, and {seen}.{both}",
        "This is the time until the application goes on, not until the bytes are safe.",
        "Report both times. Flush inside the time: savemark sync: end or direct: true, iozone -e, "
        "fio end_fsync=1, IOR -e.",
    )


@check(
    "HC-10",
    "fsync does something",
    rule="fsync answered by another library, faster than any device, or without a flush at a disk "
    "that has a write cache; barriers off",
    verdict="FLAG",
    applies="L",
    floor_us=5.0,
    doubt="fsync may do nothing here",
)
def effective(evidence: Evidence) -> Finding:
    """Look at what syncs cost and at what reached the disk: a call that returned proves nothing."""
    rows = _writes(evidence.live).filter(pl.col("durable"))
    if rows.is_empty():
        return Finding(Verdict.OK, "Not applicable: nothing claims to be durable.")
    calls = r"\b(fsync|fdatasync|sync_file_range|msync|calls unknown) by "
    preloaded = pl.col("interposed").str.contains(calls)
    floor_us = evidence.needed("HC-10", "floor_us")
    quick = pl.col("sync_latency_p50_ns") < floor_us * 1000
    on_disk = pl.col("filesystem_class").is_null() | (pl.col("filesystem_class") != "memory")
    unflushed = (
        (pl.col("write_cache") == "write back")
        & (pl.col("device_flushes") == 0)
        & pl.col("device_name").str.contains(COUNTED)
    )
    loose = pl.col("mount_options").str.contains(LOOSE_MOUNT)
    for wrong, seen in (
        (preloaded, "another library answers fsync"),
        (quick & on_disk, f"half of the syncs took less than {floor_us:g} µs"),
        (unflushed, "the disk has a write cache and got no flush"),
        (loose, "the filesystem is mounted without barriers"),
    ):
        found = rows.filter(wrong.fill_null(value=False))
        if not found.is_empty():
            return _no_op(found, seen)
    if rows["sync_latency_p50_ns"].null_count() == len(rows):
        return Finding(Verdict.UNVERIFIED, "The time of the syncs is not recorded.")
    least = int(rows["sync_latency_p50_ns"].min() or 0)  # type: ignore[arg-type]
    return Finding(
        Verdict.OK,
        f"{count(len(rows), 'durable write')}: median sync at least {least / 1000:.0f} µs, and "
        "nothing that would make it empty.",
    )


def _no_op(rows: pl.DataFrame, seen: str) -> Finding:
    by = next((text for text in rows["interposed"].drop_nulls() if text), "")
    library = re.search(r" by ([^,]+)", by)
    return Finding(
        Verdict.FLAG,
        f"{settings(keys(rows))}: {seen} ({count(len(rows), 'write')})."
        + (f" It is {library[1]}." if library else ""),
        "The bytes were not on stable storage when the clock stopped.",
        "Remove eatmydata and the like from LD_PRELOAD, mount with barriers, and run it again.",
    )


@check(
    "HC-12",
    "Compared writes promise the same",
    rule="settings or targets differ in {none, each, end, group, rename + directory sync, two "
    "generations, one save behind}, or in whether a crash can tear the old state",
    verdict="FLAG; NOTE where the promise is a factor of the study",
    note="settings promise different things",
)
def same_promise(evidence: Evidence) -> Finding:
    """List the groups of settings by what they promise when their clock stops."""
    rows = _writes(evidence.trials).filter(pl.col("contract").is_not_null())
    if rows.is_empty():
        return Finding(Verdict.OK, "Not applicable: no write says what it promises.")
    several = rows["label"].n_unique() > 1
    who = pl.concat_str("label", "setting", separator=": ") if several else pl.col("setting")
    groups = rows.with_columns(who=who).group_by("contract", "atomic", maintain_order=True)
    found = [
        (str(contract), atomic, part["who"].unique(maintain_order=True).to_list())
        for (contract, atomic), part in groups
    ]
    torn = [each for _, atomic, names in found if atomic is False for each in names]
    crash = f" A crash in mid-write can leave a torn state: {listing(torn)}." if torn else ""
    if len(found) == 1:
        promise = PROMISES.get(found[0][0], found[0][0])
        return Finding(Verdict.OK, f"All writes promise the same: {promise}.{crash}")
    lists = "; ".join(f"{PROMISES.get(c, c)}: {listing(names, 3)}" for c, _, names in found)
    factor = {"sync", "policy"} & set(evidence.run.study.factors)
    return Finding(
        Verdict.NOTE if factor else Verdict.FLAG,
        f"The writes differ in what is durable when the clock stops ({lists}).{crash}",
        "A faster setting may only promise less.",
        "Compare within one promise, or give all settings the same sync.",
    )
