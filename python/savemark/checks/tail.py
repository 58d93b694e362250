"""Whether the last worker took much longer than the first."""

from __future__ import annotations

import polars as pl

from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import keys, percent, settings

RATIO = 1.1
# The last bytes, and the time that they take (elbencho's sample: 0.6 % of the bytes, 24 %).
TAIL_BYTES = 0.05
TAIL_TIME = 0.10


@check(
    "HC-29",
    "No straggler",
    rule="last worker / first worker > 1.1, or the last 5 % of the bytes take > 10 % of the time",
    verdict="NOTE",
    note="workers did not end together",
)
def together(evidence: Evidence) -> Finding:
    """Show both times where the last worker ended clearly after the first one."""
    rows = evidence.trials.filter(
        (pl.col("worker_count").fill_null(2) > 1)
        & (pl.col("first_done_ns") > 0)
        & (pl.col("last_done_ns") > 0)
    )
    if rows.is_empty():
        if evidence.live.is_empty():
            return Finding(Verdict.UNVERIFIED, "When the first worker ended is not recorded.")
        return Finding(Verdict.OK, "Not applicable: no phase has several workers.")
    each = rows.group_by("label", "setting", "phase", maintain_order=True).agg(
        ratio=(pl.col("last_done_ns") / pl.col("first_done_ns")).median(),
        # Of what moves no bytes, as renaming does, nothing is left in bytes.
        left=(1 - pl.col("first_done_bytes") / pl.col("user_bytes").replace(0, None)).median(),
        time=(1 - pl.col("first_done_ns") / pl.col("last_done_ns")).median(),
        first=pl.col("first_done_ns").median(),
        last=pl.col("last_done_ns").median(),
    )
    thin = (pl.col("left") < TAIL_BYTES) & (pl.col("time") > TAIL_TIME)
    late = each.filter((pl.col("ratio") > RATIO) | thin.fill_null(value=False))
    if late.is_empty():
        return Finding(Verdict.OK, "The last worker ended at most 10 % after the first.")
    row = late.sort("ratio", descending=True).row(0, named=True)
    rest = f" for the last {percent(row['left'])} of the bytes" if row["left"] is not None else ""
    return Finding(
        Verdict.NOTE,
        f"{settings(keys(late))}: workers do not end together; worst: {row['phase']} of "
        f"{row['setting']}, first after {row['first'] / 1e9:.3g} s, last after "
        f"{row['last'] / 1e9:.3g} s, {percent(row['time'])} of the time{rest}.",
        "One stream, device or server is slower, or the work is not shared evenly.",
        "Quote the time of the last; smaller chunks share the work more evenly.",
    )
