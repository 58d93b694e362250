"""Whether the page cache was really cold before a restore."""

from __future__ import annotations

import polars as pl

from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import count, keys, settings

COLD = 0.01


@check("HC-05", "Restores started cold")
def cold(evidence: Evidence) -> Finding:
    """Block reads that were asked to be cold and found more than 1 % of their pages resident."""
    rows = evidence.trials.filter(pl.col("phase").is_in(["restore", "read"]))
    rows = rows.filter(pl.col("cache_wanted").fill_null("cold") != "warm")
    if rows.is_empty():
        return Finding(Verdict.OK, "No phase of this run was to read from a cold cache.")
    share = pl.col("cache_resident_pages") / pl.col("cache_total_pages")
    counted = rows.filter((pl.col("cache_total_pages") > 0) & (pl.col("cache_state") != "unknown"))
    warm = counted.with_columns(share=share).filter(
        (pl.col("share") > COLD) | pl.col("cache_state").is_in(["warm", "mixed"])
    )
    if not warm.is_empty():
        return _warm(warm, len(rows))
    none = rows.filter(pl.col("cache_state") == "none")
    unknown = (
        len(rows) - len(counted) - len(none.filter(pl.col("cache_total_pages").fill_null(0) == 0))
    )
    if unknown > 0:
        return Finding(
            Verdict.UNVERIFIED,
            f"For {unknown} of {count(len(rows), 'restore')} the residency in the page cache is "
            "not known, so they may have been served from memory.",
        )
    methods = ", ".join(sorted(set(rows["cache_method"].drop_nulls()) - {""})) or "no page cache"
    return Finding(
        Verdict.OK,
        f"At most 1 % of the pages resident before {count(len(rows), 'restore')} ({methods}).",
    )


def _warm(warm: pl.DataFrame, total: int) -> Finding:
    worst = warm.sort("share", descending=True, nulls_last=True).row(0, named=True)
    found = keys(warm)
    share = "all" if worst["share"] is None else f"{worst['share']:.0%}"
    return Finding(
        Verdict.BLOCK,
        f"{settings(found)}: {len(warm)} of {count(total, 'restore')} read data that was in memory "
        f"(up to {share} of the pages, by {worst['cache_method'] or 'the kernel'}).",
        "The page cache was not dropped, or this filesystem keeps its data in memory.",
        "Use direct I/O, run where the cache can be dropped, or ask for cache: warm and say so.",
        found,
    )
