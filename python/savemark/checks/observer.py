"""Whether watching cost what was watched, and whether latencies forgot who had to wait."""

from __future__ import annotations

import re

import polars as pl

from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import count, keys, listing, percent, settings

# What writes a line for every single operation while it is measured, or stops the program at it.
TALKATIVE = {
    "fio": re.compile(r"--?write_(?:bw|lat|iops)_log(?:=|\s)(?!.*log_avg_msec)"),
    "elbencho": re.compile(r"--opslog\b"),
    "iozone": re.compile(r"(?:^|\s)-Q\b"),
    "any": re.compile(r"(?:^|/|\s)(?:strace|ltrace|perf\s+trace|gdb)\s"),
}
# I/Os per second that a client was told to make.
RATED = re.compile(
    r"--?rate_iops(?:=|\s)\S+|--?(?:rate|limitread|limitwrite)(?:=|\s)\S+|--rps-limit\S*"
)
OPEN = re.compile(r"--?rate_process(?:=|\s)poisson")
# The share of I/Os that may start late before their tail is the generator's own.
LATE = 0.01


@check(
    "HC-36",
    "Watching costs nothing",
    rule="the tool logged every operation, or was traced, while it was measured",
    verdict="NOTE",
    applies="I",
    note="every operation was logged",
)
def quiet(evidence: Evidence) -> Finding:
    """Note commands that write a line per operation; savemark counts in memory and writes after."""
    rows = evidence.imported
    if rows.is_empty():
        return Finding(
            Verdict.OK, "Counters stay in memory while the clock runs, and are written after."
        )
    known = rows.filter(pl.col("command").is_not_null())
    if known.is_empty():
        return Finding(Verdict.UNVERIFIED, "The command that would show it is not recorded.")
    loud = [
        text
        for text in known["command"].unique(maintain_order=True)
        if any(pattern.search(text) for pattern in TALKATIVE.values())
    ]
    if not loud:
        return Finding(Verdict.OK, "No command logs each operation.")
    found = keys(known.filter(pl.col("command").is_in(loud)))
    return Finding(
        Verdict.NOTE,
        f"{settings(found)}: every operation was logged or traced while it was timed.",
        "The log takes processor time, and shares the disk if it lies on it.",
        "Let the tool average (fio: log_avg_msec=1000), or write the log to memory.",
    )


@check(
    "HC-35",
    "Latencies count the waiting",
    rule="a stated rate in a closed loop; an open loop that started more than `late` of its I/Os "
    "late, or not at all",
    verdict="FLAG",
    late=LATE,
    note="latencies leave out the waiting",
)
def waiting_counted(evidence: Evidence) -> Finding:
    """Flag percentiles of a rate that was not kept: a stall hides the I/Os that it held up."""
    live = evidence.live.filter(pl.col("slip_due") > 0)
    least = evidence.needed("HC-35", "late")
    late = live.with_columns(
        share=1 - (pl.col("slip_started") - pl.col("slip_late")) / pl.col("slip_due")
    ).filter(pl.col("share") > least)
    if not late.is_empty():
        row = late.sort("share", descending=True).row(0, named=True)
        return Finding(
            Verdict.FLAG,
            f"{settings(keys(late))}: up to {percent(row['share'])} of the I/Os that were due "
            f"started late or never ({row['phase']} of {row['setting']}).",
            "The rate is more than the storage, the queue depth or this machine can do.",
            "Latencies count from when an I/O was due, so they stand; the rate does not. Lower "
            "--rate, or raise --queue-depth.",
        )
    commands = evidence.imported.filter(pl.col("command").is_not_null())
    closed = [
        text
        for text in commands["command"].unique(maintain_order=True)
        if RATED.search(text) and not OPEN.search(text)
    ]
    if closed:
        rows = commands.filter(pl.col("command").is_in(closed))
        return Finding(
            Verdict.FLAG,
            f"{settings(keys(rows))}: a rate was stated ({listing(_stated_rates(closed), 2)}), "
            "and each I/O waited for the one before.",
            "A stall delays all that follow, and only one of them is counted as slow "
            "(coordinated omission).",
            "Do not quote latency percentiles of it; use an open loop (fio: rate_process=poisson, "
            "savemark: --rate).",
        )
    if not live.is_empty():
        return Finding(Verdict.OK, f"{count(len(live), 'phase')} kept the stated rate.")
    if evidence.live.is_empty() and commands.is_empty():
        return Finding(Verdict.UNVERIFIED, "Whether a rate was stated is not recorded.")
    return Finding(Verdict.OK, "Not applicable: no rate is stated.")


def _stated_rates(commands: list[str]) -> list[str]:
    return [found[0] for text in commands if (found := RATED.search(text))]
