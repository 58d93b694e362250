"""Whether bytes that are said to go straight to a GPU did."""

from __future__ import annotations

import polars as pl

from savemark.checks.device import RECEIVED
from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import keys, settings


@check(
    "HC-32",
    "GPUDirect Storage was on the path",
    rule="Δ /proc/driver/nvidia-fs/stats less than 90 % of the bytes",
    verdict="BLOCK",
    applies="L",
)
def direct_to_gpu(evidence: Evidence) -> Finding:
    """Block the label GDS where the driver did not see the bytes."""
    rows = evidence.live.filter(pl.col("storage_path").fill_null("").str.starts_with("gds"))
    if rows.is_empty():
        return Finding(Verdict.OK, "Not applicable: nothing claims to use GPUDirect Storage.")
    if rows["gds_bytes"].null_count():
        return Finding(Verdict.UNVERIFIED, "The counters of nvidia-fs were not read.")
    short = rows.filter(pl.col("gds_bytes") < RECEIVED * pl.col("stored_bytes"))
    if short.is_empty():
        return Finding(Verdict.OK, "The driver nvidia-fs counted the bytes.")
    return Finding(
        Verdict.BLOCK,
        f"{settings(keys(short))}: the driver nvidia-fs saw less than 90 % of the bytes.",
        "cuFile ran in compatibility mode: through the CPU's memory.",
        "See cufile.log; use a filesystem that GPUDirect Storage supports, or drop the label.",
        keys(short),
    )
