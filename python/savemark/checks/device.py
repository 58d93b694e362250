"""Whether the block device saw the bytes that the trial says it moved."""

from __future__ import annotations

import polars as pl

from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import count, keys, settings
from savemark.stats import Cell, PhaseStat

# The catalogue's limit for HC-02; the ceiling may be passed by 5 % before HC-03 speaks.
RECEIVED = 0.90
ABOVE = 1.05
# More traffic than ours by this share, and by more than metadata and journal could explain.
FOREIGN = 0.25
FOREIGN_BYTES = 32 * 2**20


def _traffic(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with device evidence, and what passed in the direction of the phase."""
    writes = pl.col("phase").is_in(["save", "write"])
    moved = pl.when(writes).then(pl.col("device_written_bytes")).otherwise("device_read_bytes")
    other = pl.when(writes).then(pl.col("device_read_bytes")).otherwise("device_written_bytes")
    counted = rows.filter(
        pl.col("device_name").is_not_null()
        & (pl.col("stored_bytes") > 0)
        & pl.col("phase").is_in(["save", "write", "restore", "read"])
    )
    return counted.with_columns(moved=moved, other=other)


@check("HC-02", "The device received the bytes")
def received(evidence: Evidence) -> Finding:
    """Block what was counted at the device at less than 90 % of the bytes claimed."""
    rows = _traffic(evidence.trials)
    if rows.is_empty():
        return Finding(
            Verdict.UNVERIFIED,
            "No counters of a block device belong to this target (memory, network or FUSE "
            "filesystem), so nothing independent shows that the bytes reached the storage.",
        )
    short = rows.filter(pl.col("moved") < RECEIVED * pl.col("stored_bytes"))
    if short.is_empty():
        least = float((rows["moved"] / rows["stored_bytes"]).min() or 0)  # type: ignore[arg-type]
        return Finding(
            Verdict.OK,
            f"/proc/diskstats of {rows['device_name'][0]} saw at least {least:.0%} of the stored "
            f"bytes in each of {count(len(rows), 'phase')}.",
        )
    worst = short.row(0, named=True)
    found = keys(short)
    return Finding(
        Verdict.BLOCK,
        f"{settings(found)}: in the {worst['phase']} of repeat {worst['repeat']} the device "
        f"{worst['device_name']} moved {worst['moved'] / worst['stored_bytes']:.0%} of the stored "
        f"bytes ({count(len(short), 'phase')} below 90 %).",
        "The rest stayed in a cache.",
        "Use a storage with direct I/O (storage: uring or posix with direct: true).",
        found,
    )


@check("HC-03", "No faster than the machine")
def below_ceiling(evidence: Evidence) -> Finding:
    """Compare each median with the limit that binds it; device bytes say which of them is wrong."""
    over: list[tuple[Cell, PhaseStat]] = []
    known = 0
    for result in evidence.results:
        for cell in result.cells:
            for phase in cell.phases.values():
                known += phase.limit is not None
                if (phase.of_limit or 0) > ABOVE:
                    over.append((cell, phase))
    if not known:
        return Finding(
            Verdict.UNVERIFIED,
            "No disk ceiling was measured in this run.",
            "",
            "Give the study the ceilings `write` and `read`.",
        )
    if not over:
        return Finding(Verdict.OK, f"{count(known, 'median')} at most 5 % above the limit.")
    return _above(evidence, over)


def _above(evidence: Evidence, over: list[tuple[Cell, PhaseStat]]) -> Finding:
    rows = _traffic(evidence.trials)
    whole = set(keys(rows)) - set(
        keys(rows.filter(pl.col("moved") < RECEIVED * pl.col("stored_bytes")))
    )
    found = [(cell.label, cell.setting, phase.name) for cell, phase in over]
    unproven = tuple(key for key in found if key not in whole)
    cell, phase = max(over, key=lambda pair: pair[1].of_limit or 0)
    assert phase.limit is not None
    seen = (
        f"{settings(found)}: faster than the measured ceiling by more than 5 % (the {phase.name} "
        f"of {cell.setting} reaches {phase.of_limit:.0%} of {phase.limit.name})."
    )
    again = (
        "Measure the ceiling again with more repeats (--repeats 10) on an otherwise idle machine."
    )
    if unproven:
        return Finding(
            Verdict.BLOCK,
            seen,
            "The data did not reach the disk, or the ceiling was measured low; no device counters "
            "show which.",
            "Use direct I/O on a local disk, or " + again[0].lower() + again[1:],
            unproven,
        )
    cause = "The device counters saw the bytes, so the ceiling was measured low."
    return Finding(Verdict.FLAG, seen, cause, again)


@check("HC-31", "Nobody else used the device")
def alone(evidence: Evidence) -> Finding:
    """Find phases in which the device moved clearly more than the trial did."""
    rows = _traffic(evidence.trials)
    if rows.is_empty():
        return Finding(Verdict.UNVERIFIED, "No device counters, so foreign traffic cannot be seen.")
    foreign = (pl.col("moved") - pl.col("stored_bytes")).clip(0) + pl.col("other")
    rows = rows.with_columns(foreign=foreign)
    much = (pl.col("foreign") > FOREIGN_BYTES) & (
        pl.col("foreign") > FOREIGN * pl.col("stored_bytes")
    )
    busy = rows.filter(much).sort("foreign", descending=True)
    if busy.is_empty():
        share = int(rows["foreign"].sum()) / int(rows["stored_bytes"].sum())
        return Finding(
            Verdict.OK,
            f"{rows['device_name'][0]} moved {share:.1%} more than the trials did; CPU steal and "
            "throttling are not recorded.",
        )
    worst = busy.row(0, named=True)
    speed = worst["foreign"] / worst["elapsed_ns"] * 1e3
    return Finding(
        Verdict.FLAG,
        f"{settings(keys(busy))}: in {count(len(busy), 'phase')} the device also moved bytes that "
        f"are not ours, up to {speed:.0f} MB/s ({worst['setting']}, repeat {worst['repeat']}, "
        f"{worst['phase']}).",
        "Another process used the same disk.",
        "Find it with `iotop -oa` or `pidstat -d 1`, stop it, and run again.",
    )
