"""What the worker threads did, in thread-seconds: never on one axis with wall time (HC-16)."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.figure import Figure, each_phase
from savemark.report.marks import fastest, shares
from savemark.report.palette import light
from savemark.report.text import seconds
from savemark.stats import TargetResult

PARTS = {"codec": "codec", "digest": "checksum", "wait": "waiting for I/O"}
COLOURS = ("second", "fourth", "first")
COLUMNS = tuple(f"thread_{part}_ns" for part in PARTS)


def why_not(analysis: Analysis) -> str | None:
    """A bar of one part says nothing."""
    used = [c for c in COLUMNS if c in analysis.frame.columns and analysis.frame[c].sum() > 0]
    if not used:
        return "what the threads did is not recorded"
    return "the threads only waited for I/O" if used == ["thread_wait_ns"] else None


def chart(analysis: Analysis, result: TargetResult, phase: str) -> Any | None:
    """A bar per setting in the order of the other figure."""
    rows = analysis.rows(result.label, phase).filter(pl.sum_horizontal(COLUMNS) > 0)
    rows, _ = fastest(analysis.short(rows))
    if rows.is_empty():
        return None
    means = rows.group_by("setting", maintain_order=True).agg(
        pl.col(COLUMNS).mean(), pl.col("elapsed_ns").mean()
    )
    values = []
    for row in means.sort("elapsed_ns").to_dicts():
        whole = sum(row[column] or 0 for column in COLUMNS) or 1
        for place, (column, name) in enumerate(zip(COLUMNS, PARTS.values(), strict=True)):
            share = (row[column] or 0) / whole
            tip = f"{row['setting']}: {name} {seconds(share * whole / 1e9)} thread-s, {share:.0%}"
            values.append(
                {"setting": row["setting"], "part": name, "share": share, "place": place}
                | {"whole": f"{seconds(whole / 1e9)} thread-s", "tip": tip}
            )
    colours = [light(colour) for colour in COLOURS]
    scale = alt.Scale(domain=list(PARTS.values()), range=colours)
    return shares(values, analysis.short_title, "share of the threads’ time", ("part", scale))


FIGURES = (
    Figure(
        name="threads",
        section="where",
        title="Thread time",
        caption="Time summed over the worker threads (at the end of the bar, in thread-seconds: "
        "not to be compared with wall time), in the order of the figure above. A setting whose bar "
        "is mostly codec is bound by the processor, one that mostly waits is bound by the storage.",
        needs=("setting", "phase", *COLUMNS),
        draw=each_phase(chart),
        order=30,
        why_not=why_not,
    ),
)
