"""Where the threads’ time went: sync, other I/O, and the rest, on one time base."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.factors import Factor, roles
from savemark.report.figure import Figure, each_phase
from savemark.report.marks import shares
from savemark.report.palette import light
from savemark.report.text import seconds
from savemark.stats import TargetResult

PARTS = {"sync": "second", "other I/O": "first", "computing and waiting": "third"}
COLUMNS = ("thread_io_ns", "thread_sync_ns", "worker_count", "elapsed_ns")


def why_not(analysis: Analysis) -> str | None:
    """It is about phases that do more than I/O."""
    column = analysis.frame["thread_io_ns"]
    return "no I/O time of threads is recorded" if column.null_count() == len(column) else None


def chart(analysis: Analysis, result: TargetResult, phase: str) -> Any | None:
    """A bar per setting: shares of threads × wall time."""
    whole = pl.all_horizontal(pl.col(COLUMNS).is_not_null())
    rows = analysis.measured(phase).filter(whole & (pl.col("target") == result.label))
    if rows.is_empty():
        return None
    means = analysis.short(_in_order(analysis, rows)).with_columns(
        room=pl.col("elapsed_ns") * pl.col("worker_count")
    )
    values = []
    sums = means.group_by("setting", maintain_order=True).agg(pl.col("room", *COLUMNS).mean())
    for row in sums.to_dicts():
        sync, io, room = row["thread_sync_ns"], row["thread_io_ns"], row["room"]
        for place, (part, ns) in enumerate(
            zip(PARTS, (sync, io - sync, max(room - io, 0)), strict=True)
        ):
            tip = f"{row['setting']}: {part} {seconds(ns / 1e9)} thread-s, {ns / room:.1%}"
            values.append(
                {"setting": row["setting"], "part": part, "share": ns / room, "place": place}
                | {"whole": f"{seconds(room / 1e9)} thread-s", "tip": tip}
            )
    scale = alt.Scale(domain=list(PARTS), range=[light(name) for name in PARTS.values()])
    return shares(values, analysis.short_title, "share of threads × wall time", ("part", scale))


def _in_order(analysis: Analysis, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows in the order of the factors' levels, what is across last."""
    found = roles(analysis.own_factors)
    factors = [f for f in (found.line, *found.columns, found.row, found.across) if f]
    places = [pl.col(f.name).replace_strict(_places(f), default=0) for f in factors]
    return rows.sort(places)


def _places(factor: Factor) -> dict[str, int]:
    return {level: place for place, level in enumerate(factor.levels)}


FIGURES = (
    Figure(
        name="thread_io",
        section="where",
        title="I/O time of the threads",
        caption="A bar is all the time that the threads had (threads × wall time, at its end): "
        "what they spent in sync, in other I/O (waiting for another thread’s sync may be in it), "
        "and with anything else. All of it is thread-seconds, so the parts can be compared.",
        needs=COLUMNS,
        draw=each_phase(chart),
        order=31,
        why_not=why_not,
    ),
)
