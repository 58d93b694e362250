"""Whether savemark and the tools beside it moved their bytes through memory of one kind."""

from __future__ import annotations

import polars as pl

from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import keys, listing, settings
from savemark.records.evidence import ASKED_HUGE, NOT_ASKED
from savemark.tools import ENGINE

PAGE = 4096


@check(
    "HC-41",
    "What is compared has the same memory",
    rule="direct I/Os of more than 4 KiB, by savemark on huge pages and by a tool, which has pages "
    "of 4 KiB, in one run",
    verdict="FLAG; NOTE where `huge_pages` is a factor of the study",
    applies="L",
    doubt="what is compared had memory of two kinds",
)
def same_memory(evidence: Evidence) -> Finding:
    """Flag what a tool is held against with other pages: each is a piece of a request."""
    rows = evidence.live.filter(pl.col("direct") & (pl.col("transfer_bytes") > PAGE))
    tools = rows.filter(pl.col("pages") == NOT_ASKED)
    ours = rows.filter(pl.col("tool") == ENGINE, pl.col("pages").is_not_null())
    if tools.is_empty() or ours.is_empty():
        return Finding(Verdict.OK, "Not applicable: no tool does the same direct I/O beside us.")
    given = evidence.run.host.memory.transparent_hugepages
    if given not in ("madvise", "never"):
        seen = "not recorded" if given is None else f"{given}: also to those who do not ask"
        return Finding(
            Verdict.UNVERIFIED,
            f"Which pages the tools had is not known (the kernel gives huge ones: {seen}).",
        )
    huge = ours.filter(pl.col("pages") == ASKED_HUGE)
    if huge.is_empty() or given == "never":
        return Finding(Verdict.OK, "Memory on pages of 4 KiB on all sides.")
    names = listing(tools["tool"].unique().sort())
    factor = "huge_pages" in evidence.run.study.factors
    return Finding(
        Verdict.NOTE if factor else Verdict.FLAG,
        f"{settings(keys(huge))}: savemark's memory is on pages of 2 MiB, that of {names} on pages "
        "of 4 KiB.",
        "An I/O is cut into as many pieces as it has pages; on some disks that alone makes it 1.3 "
        "to 1.8 times as slow.",
        "Use huge_pages: false to compare with tools.",
    )
