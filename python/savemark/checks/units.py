"""Whether numbers agree with each other and labels with what ran."""

from __future__ import annotations

import polars as pl

from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import count, keys, listing, settings

TOLERANCE = 0.02
# Ratios that give a mistake away, and what it is.
SLIPS = {
    1.024: "1000 taken for 1024 in one step: MiB / 1000 called GiB, or kB called KiB",
    1.048576: "MB taken for MiB",
    1.073741824: "GB taken for GiB",
    1000.0: "a unit off by a thousand",
    1024.0: "a unit off by 1024",
    8.0: "bits taken for bytes",
}


@check(
    "HC-21",
    "The arithmetic holds",
    rule="printed rate = bytes / time = operations × transfer size, each within 2 %",
    verdict="BLOCK",
)
def consistent(evidence: Evidence) -> Finding:
    """Recompute what the tool printed from the other numbers that it printed."""
    rows = evidence.trials
    bytes_ = pl.col("user_bytes").fill_null(pl.col("stored_bytes"))
    computed = bytes_ / pl.col("elapsed_ns") * 1e9
    by_ops = pl.col("reported_ops_per_s") * pl.col("transfer_bytes")
    tested = rows.with_columns(
        by_time=pl.col("reported_bytes_per_s") / computed,
        by_ops=pl.col("reported_bytes_per_s") / by_ops,
    )
    known = tested.filter(pl.col("by_time").is_not_null() | pl.col("by_ops").is_not_null())
    for name, what in (
        ("by_time", "bytes / time"),
        ("by_ops", "operations × transfer size"),
    ):
        off = known.filter((pl.col(name) - 1).abs() > TOLERANCE)
        if not off.is_empty():
            return _off(off, name, what)
    if known.is_empty():
        if evidence.imported.is_empty():
            return Finding(Verdict.OK, "All figures are computed here, from one set of counters.")
        return Finding(Verdict.UNVERIFIED, "The file has no two numbers that could disagree.")
    return Finding(Verdict.OK, f"Printed and computed rates agree in {count(len(known), 'phase')}.")


def _off(rows: pl.DataFrame, name: str, what: str) -> Finding:
    row = rows.row(0, named=True)
    ratio = row[name]
    slip = next(
        (
            text
            for value, text in SLIPS.items()
            if min(abs(ratio / value - 1), abs(ratio * value - 1)) < 0.002
        ),
        "",
    )
    return Finding(
        Verdict.BLOCK,
        f"{settings(keys(rows))}: the printed rate is {ratio:.4g} × {what}.",
        f"Most likely {slip}." if slip else "The numbers come from different runs or are mistyped.",
        "Find the unit or the run that each number is from, and import the tool's own output.",
        keys(rows),
    )


@check(
    "HC-22",
    "The label is what ran",
    rule="factors in a file's name or label against the command line; the same file under two "
    "labels (SHA-256)",
    verdict="BLOCK",
    applies="I",
)
def labelled(evidence: Evidence) -> Finding:
    """Block series whose label is contradicted by the command, or that are the same file twice."""
    rows = evidence.imported
    if rows.is_empty():
        return Finding(Verdict.OK, "Not applicable: the plan names what ran.")
    wrong = rows.filter(pl.col("label_conflict").is_not_null() & (pl.col("label_conflict") != ""))
    if not wrong.is_empty():
        return Finding(
            Verdict.BLOCK,
            f"{settings(keys(wrong))}: {listing(wrong['label_conflict'].unique().sort(), 2)}.",
            "The file was renamed, or the script passed other values than it wrote down.",
            "Trust the command line, and name the series after it.",
            keys(wrong),
        )
    hashed = rows.filter(pl.col("source_sha256").is_not_null())
    if hashed.is_empty():
        return Finding(Verdict.UNVERIFIED, "Neither command nor digest of the files is recorded.")
    twice = hashed.filter(pl.col("label").n_unique().over("source_sha256") > 1)
    if not twice.is_empty():
        names = listing(twice["label"].unique(maintain_order=True))
        return Finding(
            Verdict.BLOCK,
            f"{names} are the same file.",
            "One was copied over the other; the data behind one label is lost.",
            "Find the original, or leave both out.",
            keys(twice),
        )
    return Finding(
        Verdict.OK, f"{count(hashed['source_sha256'].n_unique(), 'file')}, all different."
    )
