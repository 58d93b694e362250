"""What the tool said about its own result, and whether it says what it measured."""

from __future__ import annotations

import polars as pl

from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import keys, listing, settings
from savemark.records.head import Cpu
from savemark.records.io500 import MILD


@check(
    "HC-25",
    "The tool stands by its result",
    rule="IO500 [INVALID], fio error ≠ 0, IOR WARNING or ERROR, an ERROR of elbencho's workers, "
    "warp errors > 0, and the like",
    verdict="BLOCK; FLAG where a run of IO500 here was only too short for its rules, or in memory",
    doubt="the tool does not stand by its result",
    blocked="the tool called it invalid",
)
def valid(evidence: Evidence) -> Finding:
    """Block what its own tool called invalid."""
    if (found := _of_io500(evidence)) is not None:
        return found
    rows = evidence.imported
    if rows.is_empty():
        return Finding(Verdict.OK, "Failed trials are no results here; see HC-20.")
    bad = rows.filter(~pl.col("tool_valid"))
    if not bad.is_empty():
        reasons = listing(
            (text for text in bad["tool_message"].drop_nulls().unique(maintain_order=True) if text),
            2,
            "messages",
        )
        return Finding(
            Verdict.BLOCK,
            f"{settings(keys(bad))}: the tool called its result invalid"
            + (f" ({reasons})." if reasons else "."),
            "It broke the tool's own rules, or had errors.",
            "Fix what it says and run it again; leave these numbers out.",
            keys(bad),
        )
    if rows["tool_valid"].null_count():
        return Finding(Verdict.UNVERIFIED, "Whether the tool called its result valid is not said.")
    return Finding(Verdict.OK, "The tool called every result valid.")


def _of_io500(evidence: Evidence) -> Finding | None:
    """Judge trials of IO500 that ran here: too short a phase is a measurement, and no IO500."""
    rows = evidence.live.filter((pl.col("workload") == "io500") & ~pl.col("tool_valid"))
    if rows.is_empty():
        return None
    mild = pl.col("tool_message").str.split("; ").list.eval(pl.element().str.contains(MILD.pattern))
    wrong = rows.filter(~mild.list.all())
    bad = rows if wrong.is_empty() else wrong
    reasons = listing(bad["tool_message"].unique(maintain_order=True), 2, "reasons")
    return Finding(
        Verdict.FLAG if wrong.is_empty() else Verdict.BLOCK,
        f"{settings(keys(bad))}: by IO500's rules this is [INVALID] ({reasons}).",
        "It broke the rules by which IO500's results are compared."
        + (" The speeds are a measurement, the score is none." if wrong.is_empty() else ""),
        "Use --phase-deadline 5m with enough --block-size, --segments and --files-per-worker; "
        "until then quote no score."
        if wrong.is_empty()
        else "Fix what it says and run it again; leave these numbers out.",
        () if wrong.is_empty() else keys(wrong),
    )


@check(
    "HC-24",
    "The environment is recorded",
    rule="version of the tool, kernel, processor, filesystem, and the file's digest",
    verdict="FLAG",
    note="the environment is not recorded",
)
def described(evidence: Evidence) -> Finding:
    """List what nobody will be able to look up later."""
    host, rows = evidence.run.host, evidence.trials
    if rows.is_empty():
        return Finding(Verdict.UNVERIFIED, "No phase finished.")
    missing = [] if host.kernel_release else ["kernel"]
    missing += [] if host.cpu != Cpu() else ["processor"]
    unknown = rows.filter(pl.col("tool_version").fill_null("") == "")
    if not unknown.is_empty():
        tools = listing(unknown["tool"].drop_nulls().unique().sort()) or "the tool"
        missing.append(f"version of {tools}")
    on_disk = rows["filesystem"].fill_null("").eq("").all()
    in_memory = rows["storage_path"].is_in(["null", "memory", "object"]).all()
    if on_disk and not in_memory and not (host.target and host.target.filesystem):
        missing.append("filesystem")
    if not missing:
        return Finding(Verdict.OK, "Versions, kernel, processor and filesystem are recorded.")
    return Finding(
        Verdict.FLAG,
        f"Not recorded: {listing(missing, 6)}.",
        "Nobody can repeat the run, or say later why it differs from another.",
        "Keep the output of `savemark doctor --json` and of the tool's --version beside the files.",
    )
