"""Whether the ranks of a phase started together, and how that is known."""

from __future__ import annotations

import polars as pl

from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import keys, percent, settings


@check(
    "HC-28",
    "Ranks start together",
    rule="ranks left the start barrier further apart than `share` of the phase, by clocks that are "
    "compared by ping-pong before and after it; or the comparison is less true than that",
    verdict="FLAG",
    applies="L",
    share=0.01,
    doubt="ranks did not start together",
)
def start_together(evidence: Evidence) -> Finding:
    """Flag phases of which some ranks missed a part; no duration is taken with two clocks."""
    several = evidence.live.filter(pl.col("rank_count") > 1)
    if several.is_empty():
        return Finding(Verdict.OK, "Not applicable: one process, one clock.")
    known = several.filter(pl.col("start_skew_ns").is_not_null() & (pl.col("elapsed_ns") > 0))
    if known.is_empty():
        return Finding(Verdict.UNVERIFIED, "When each rank started is not recorded.")
    each = known.group_by("label", "setting", "phase", maintain_order=True).agg(
        skew=(pl.col("start_skew_ns") / pl.col("elapsed_ns")).median(),
        error=(pl.col("clock_error_ns") / pl.col("elapsed_ns")).median(),
        ns=pl.col("start_skew_ns").median(),
    )
    share = evidence.needed("HC-28", "share")
    late = each.filter(pl.col("skew") > share)
    if not late.is_empty():
        worst = late.sort("skew", descending=True).row(0, named=True)
        return Finding(
            Verdict.FLAG,
            f"{settings(keys(late))}: ranks start up to {worst['ns'] / 1e6:.3g} ms apart, "
            f"{percent(worst['skew'])} of {worst['phase']} of {worst['setting']}.",
            "The barrier lets them go one after the other: more ranks than processors, a slow "
            "network, or a phase that is too short. Until the last starts, the others have the "
            "storage for themselves.",
            "Measure for longer, or start no more ranks than a node has processors.",
        )
    unsure = each.filter(pl.col("error") > share)
    if not unsure.is_empty():
        most = float(unsure["error"].max() or 0)  # type: ignore[arg-type]
        return Finding(
            Verdict.FLAG,
            f"{settings(keys(unsure))}: clocks are compared to within {percent(most)} of a phase.",
            "Messages between the nodes take long, or a clock drifts, so nobody knows whether "
            "the ranks started together.",
            "Measure for longer, or see why the network is slow.",
        )
    most = float(each["skew"].max() or 0)  # type: ignore[arg-type]
    return Finding(
        Verdict.OK,
        f"Ranks start within {percent(most)} of a phase; each duration is by one clock.",
    )
