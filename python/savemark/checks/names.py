"""Whether names were looked up on the storage, or in the memory of whoever had made them."""

from __future__ import annotations

import re

import polars as pl

from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import keys, settings
from savemark.stats import Key

LOOKS = ("stat", "read", "find")
OF_IO500 = ("find", "mdtest-easy-stat", "mdtest-hard-stat", "mdtest-hard-read")
# mdtest and IO500 shift ranks, so that nobody meets its own; -N is mdtest's stride.
SHIFTED = re.compile(r"(?:^|\s)-N\s*[1-9]")


@check(
    "HC-38",
    "Names are not in memory",
    rule="stat or read of small files by the node that made them, names and inodes not dropped, "
    "and no shift to another node (mdtest -N)",
    verdict="FLAG; NOTE where the study asks for it",
    doubt="names may have come from memory",
)
def looked_up(evidence: Evidence) -> Finding:
    """Flag lookups that the client's dentry and inode caches may have answered."""
    ours = evidence.live.filter(
        (pl.col("workload") == "metadata") & pl.col("phase").is_in(LOOKS)
        | (pl.col("workload") == "io500") & pl.col("phase").is_in(OF_IO500)
    )
    warm = ours.filter(pl.col("cache_state").fill_null("unknown") != "dropped")
    rows = evidence.imported.filter(
        pl.col("tool").fill_null("").is_in(["mdtest", "io500"]) & pl.col("phase").is_in(LOOKS)
    )
    stride = pl.col("command").fill_null("").str.contains(SHIFTED.pattern)
    own = rows.filter(pl.col("tool") == "mdtest").filter(~stride)
    known = own.filter(pl.col("command").is_not_null())
    if not known.is_empty():
        return _own(keys(known), Verdict.FLAG, "mdtest ran without -N")
    if not warm.is_empty():
        return _own(keys(warm), Verdict.NOTE, "names and inodes were not dropped")
    if not own.is_empty():
        return Finding(Verdict.UNVERIFIED, "mdtest's command, which says whether -N, is missing.")
    if ours.is_empty() and rows.is_empty():
        return Finding(Verdict.OK, "Not applicable: no names are looked up.")
    return Finding(Verdict.OK, "Names and inodes were dropped first, or another node asked.")


def _own(phases: tuple[Key, ...], verdict: Verdict, why: str) -> Finding:
    return Finding(
        verdict,
        f"{settings(phases)}: the node that made the files looked them up, and {why}.",
        "Its memory knew the answers; the storage was not asked.",
        "Let another node ask (mdtest -N with the tasks per node), or drop caches first "
        "(savemark: --cache cold, for IO500 --names cold, as root).",
    )
