"""First and last worker done: how long the slowest kept the others waiting."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.figure import Figure, each_phase
from savemark.report.figures.grids import why_not as grid_why_not
from savemark.report.marks import fastest, spans
from savemark.report.text import seconds
from savemark.stats import TargetResult

ENDS = {"first worker": ("first", "circle"), "last worker": ("limit", "triangle-right")}


def why_not(analysis: Analysis) -> str | None:
    """The grids show first and last where there are many factors."""
    return None if grid_why_not(analysis) else "the grids of first and last show it"


def chart(analysis: Analysis, result: TargetResult, phase: str) -> Any | None:
    """A row per setting, of phases with more than one worker."""
    rows = analysis.rows(result.label, phase).filter(pl.col("first_done_ns") > 0)
    rows, _ = fastest(analysis.short(rows))
    if rows.is_empty():
        return None
    share = pl.col("first_done_ns") / pl.col("elapsed_ns")
    end = pl.max_horizontal(pl.col("last_done_ns"), pl.col("first_done_ns")) / pl.col("elapsed_ns")
    middles = rows.group_by("setting", maintain_order=True).agg(
        first=share.median(), last=end.median(), elapsed=pl.col("elapsed_ns").median()
    )
    values, order = [], []
    for row in middles.sort("elapsed").to_dicts():
        order.append(row["setting"])
        for name, key in zip(ENDS, ("first", "last"), strict=True):
            at = seconds(row[key] * row["elapsed"] / 1e9)
            tip = f"{row['setting']}: {name} done after {at} s, {row[key]:.1%} of the phase"
            values.append({"setting": row["setting"], "point": name, "x": row[key], "tip": tip})
    low = min(row["x"] for row in values)
    x = alt.X(
        "x:Q",
        title="share of the phase’s time",
        scale=alt.Scale(domain=[max(0, min(low - 0.02, 0.9)), 1.005], nice=False),
        axis=alt.Axis(format="%", tickCount=5),
    )
    return spans(values, ENDS, x, order, analysis.short_title)


FIGURES = (
    Figure(
        name="tail",
        section="distributions",
        title="First and last worker",
        caption="When the first and the last worker had ended, as a share of the phase (medians), "
        "fastest setting on top. A long bar is a tail: most workers waited for a few. What is "
        "right of the last worker is flush and commit.",
        needs=("setting", "phase", "first_done_ns", "last_done_ns"),
        draw=each_phase(chart),
        order=41,
        why_not=why_not,
    ),
)
