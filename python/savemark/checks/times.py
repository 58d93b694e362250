"""Whether all times are of one kind: seconds of a clock, not seconds summed over threads."""

from __future__ import annotations

import polars as pl

from savemark.checks.registry import Evidence, Finding, Verdict, check
from savemark.checks.wording import count, keys, settings


@check(
    "HC-16",
    "One time base",
    rule="thread-seconds beside wall seconds in one run; Σ thread time > threads × wall time",
    verdict="BLOCK of what is summed over threads",
    blocked="times of two kinds are mixed",
)
def one_base(evidence: Evidence) -> Finding:
    """Block times that were summed over threads: they may not stand beside wall time.

    savemark's own thread times (codec, checksum, waiting) are columns of their own and drawn apart.
    """
    rows = evidence.trials
    if rows.is_empty():
        return Finding(Verdict.UNVERIFIED, "No phase finished.")
    room = pl.col("worker_count") * pl.col("elapsed_ns")
    impossible = rows.filter(
        (pl.col("time_base") == "wall") & (pl.col("thread_io_ns") > 1.02 * room)
    )
    if not impossible.is_empty():
        return Finding(
            Verdict.BLOCK,
            f"{settings(keys(impossible))}: more I/O time than all threads together had "
            f"({count(len(impossible), 'phase')}).",
            "The times are of different things, or a unit is wrong.",
            "Ask what each time covers before anything is computed from them.",
            keys(impossible),
        )
    threads = rows.filter(pl.col("time_base") == "threads")
    beside = rows.filter(
        (pl.col("origin") == "imported")
        & (pl.col("thread_io_ns") > 0)
        & (pl.col("worker_count").fill_null(2) > 1)
    )
    mixed = threads if rows["time_base"].n_unique() > 1 else threads.clear()
    if not mixed.is_empty() or not beside.is_empty():
        found = keys(mixed)
        return Finding(
            Verdict.BLOCK,
            f"{settings(found or keys(beside))}: times summed over threads stand beside wall time.",
            "Eight threads that wait one second each make eight thread-seconds of one second.",
            "Divide them by the number of threads, or draw them on an axis of their own.",
            found,
        )
    if rows["time_base"].null_count() == len(rows):
        return Finding(Verdict.UNVERIFIED, "What the times are made of is not recorded.")
    return Finding(Verdict.OK, "All times are of one clock.")
