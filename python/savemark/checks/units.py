"""Whether numbers agree with each other and labels with what ran."""

from __future__ import annotations

import polars as pl

from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import count, keys, listing, settings

TOLERANCE = 0.02
# A rate of a table is a rate of a run within the table's rounding; fewer than these may be chance.
SAME, LEAST = 2e-4, 3
STATED = ("nodes", "ranks", "stripes", "segments", "workers", "transfer_size", "layout")
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
    rule="printed rate = bytes / time = operations × transfer size, each within 2 %; a printed "
    "score is that of its phases; a table's rates are those of the runs beside it",
    verdict="BLOCK",
    blocked="the arithmetic does not hold",
)
def consistent(evidence: Evidence) -> Finding:
    """Recompute what the tool printed from the other numbers that it printed."""
    rows = evidence.trials
    wrong = rows.filter(pl.col("arithmetic").is_not_null())
    if not wrong.is_empty():
        return Finding(
            Verdict.BLOCK,
            f"{settings(keys(wrong))}: {listing(wrong['arithmetic'].unique().sort(), 2)}.",
            "The numbers come from different runs, or were changed by hand.",
            "Import the tool's own output.",
            keys(wrong),
        )
    summary = _summaries(evidence.imported)
    if summary is not None:
        return summary
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


def _summaries(rows: pl.DataFrame) -> Finding | None:
    """Compare rates that have no time (tables of a report) with the runs they may be of.

    A summary is of the runs with its own levels of all factors that it states, and of its phase.
    """
    published = rows.filter(pl.col("elapsed_ns").is_null() & (pl.col("reported_bytes_per_s") > 0))
    runs = rows.filter(pl.col("elapsed_ns").is_not_null() & (pl.col("reported_bytes_per_s") > 0))
    if published.is_empty() or runs.is_empty():
        return None
    shared = ["phase", *(name for name in STATED if name in rows.columns)]
    hits = {1.0: published.clear()} | {slip: published.clear() for slip in SLIPS}
    for levels, part in published.group_by(shared, maintain_order=True):
        known = [
            pl.col(n) == level for n, level in zip(shared, levels, strict=True) if level is not None
        ]
        rates = runs.filter(*known)["reported_bytes_per_s"].to_numpy()
        claims = part["reported_bytes_per_s"]
        for slip in hits if len(rates) else ():
            near = [float(abs(claim / slip / rates - 1).min()) < SAME for claim in claims]
            hits[slip] = pl.concat([hits[slip], part.filter(pl.Series(near))])
    best = max(hits, key=lambda slip: len(hits[slip]))
    if best == 1.0 or len(hits[best]) < LEAST:
        return None
    found = hits[best]
    return Finding(
        Verdict.BLOCK,
        f"{settings(keys(found))}: {count(len(found), 'published rate')} × {1 / best:.6g} "
        "are rates of the runs beside them.",
        f"Most likely {SLIPS[best]}.",
        "Use the runs; in the published table, correct the unit or the numbers.",
        keys(found),
    )


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
    blocked="the label is not what ran",
)
def labelled(evidence: Evidence) -> Finding:
    """Block series whose label is contradicted by the command, or that are the same file twice."""
    rows = evidence.imported
    if rows.is_empty():
        return Finding(Verdict.OK, "Not applicable: the plan names what ran.")
    conflict = pl.col("label_conflict")
    wrong = rows.filter(conflict.is_not_null() & (conflict != ""))
    hashed = rows.filter(pl.col("source_sha256").is_not_null())
    labels = pl.col("label").n_unique().over("source_sha256")
    files = pl.col("source_file").n_unique().over("source_sha256")
    twice = hashed.filter((labels > 1) | (files > 1))
    parts, fixes = [], []
    if not wrong.is_empty():
        conflicts = listing(wrong["label_conflict"].unique().sort(), 2)
        parts.append(f"{settings(keys(wrong))}: {conflicts}")
        fixes.append("Trust the command line, and name the series after it.")
    if not twice.is_empty():
        parts.append(f"{_names(twice)} are the same file")
        fixes.append("Find the original of what is there twice, or leave both out.")
    if parts:
        return Finding(
            Verdict.BLOCK,
            "; ".join(parts) + ".",
            "A file was renamed or copied over another, or the script passed other values than it "
            "wrote down.",
            " ".join(fixes),
            keys(pl.concat([wrong, twice])),
        )
    if hashed.is_empty():
        return Finding(Verdict.UNVERIFIED, "Neither command nor digest of the files is recorded.")
    return Finding(
        Verdict.OK, f"{count(hashed['source_sha256'].n_unique(), 'file')}, all different."
    )


def _names(rows: pl.DataFrame) -> str:
    """The labels of some rows, or their files where there is one label."""
    several = rows["label"].n_unique() > 1
    name = pl.col("label") if several else pl.col("source_file").fill_null(pl.col("label"))
    return listing(rows.select(name).to_series().unique(maintain_order=True))
