"""Whether the price of compression is shown beside what it gains."""

from __future__ import annotations

import polars as pl

from savemark.checks.data import PLAIN
from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import listing


@check(
    "HC-39",
    "What compression costs is shown",
    rule="codecs that compute, and no CPU-seconds or number of cores beside their times",
    verdict="NOTE",
)
def cost_shown(evidence: Evidence) -> Finding:
    """Note codecs whose CPU time nobody recorded."""
    coded = evidence.trials.filter(
        pl.col("codec").is_not_null() & ~pl.col("codec").is_in(list(PLAIN))
    )
    if coded.is_empty():
        return Finding(Verdict.OK, "Not applicable: nothing is compressed.")
    silent = coded.filter(pl.col("cpu_user_ns").is_null())
    if silent.is_empty():
        return Finding(Verdict.OK, "CPU-seconds per GiB stand beside every time.")
    return Finding(
        Verdict.NOTE,
        f"{listing(silent['codec'].unique().sort())}: the CPU time of the codec is not recorded.",
        "Processors that compress do not compute; a faster save may cost the job more.",
        "Measure with savemark, which records it, or add `time -v` (user + system seconds).",
    )
