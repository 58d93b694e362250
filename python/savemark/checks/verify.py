"""Whether what came back was compared with what was saved."""

from __future__ import annotations

import polars as pl

from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import count, keys, settings


@check(
    "HC-11",
    "Restores were verified",
    rule="no checksum, comparison or sign of life after a restore",
    verdict="FLAG",
    doubt="what was restored was not verified",
)
def verified(evidence: Evidence) -> Finding:
    """Flag restores that nothing was compared with."""
    rows = evidence.trials.filter(pl.col("phase") == "restore")
    if rows.is_empty():
        return Finding(Verdict.OK, "Not applicable: nothing was restored.")
    silent = rows.filter(pl.col("verified").is_null() | (pl.col("verified") == ""))
    if silent.is_empty():
        what = ", ".join(sorted(set(rows["verified"])))
        return Finding(Verdict.OK, f"{count(len(rows), 'restore')} verified: {what}.")
    return Finding(
        Verdict.FLAG,
        f"{settings(keys(silent))}: {len(silent)} of {count(len(rows), 'restore')} not verified.",
        "Wrong data would have passed unseen.",
        "Run it again with a savemark that verifies, or read these numbers as unverified restores.",
    )
