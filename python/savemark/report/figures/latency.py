"""Latency of one I/O: median to maximum, a line per setting."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.figure import Figure, each_phase
from savemark.report.marks import fastest, seconds_scale, spans, ticks
from savemark.report.text import span
from savemark.stats import TargetResult, median

POINTS = {"p50": "median", "p99": "99 %", "max": "largest"}
LOOKS = {
    "median": ("first", "circle"),
    "99 %": ("second", "diamond"),
    "largest": ("limit", "triangle-right"),
}


def chart(analysis: Analysis, result: TargetResult, phase: str) -> Any | None:
    """A line per setting, of a phase that has I/O latencies."""
    rows = analysis.rows(result.label, phase).filter(pl.col("latency_count") > 0)
    rows, _ = fastest(analysis.short(rows))
    if rows.is_empty():
        return None
    values, order = [], []
    for (setting,), part in rows.group_by("setting", maintain_order=True):
        order.append((median(part["elapsed_ns"].to_list()), setting))
        for point, label in POINTS.items():
            # Of files of others some have percentiles, some a mean alone.
            found = part[f"latency_{point}_ns"].drop_nulls().to_list()
            if not found:
                continue
            # Percentiles of several runs cannot be averaged: the median run, or the worst of all.
            value = max(found) if point == "max" else median(found)
            values.append(
                {"setting": setting, "point": label, "ms": max(value, 1) / 1e6}
                | {"tip": f"{setting}: {label} {span(value)} per I/O"}
            )
    if not values:
        return None
    settings = [setting for _, setting in sorted(order)]
    scale, _ = seconds_scale([row["ms"] for row in values])
    x = alt.X(
        "ms:Q",
        scale=scale,
        title="latency of one I/O, milliseconds (log scale)",
        axis=ticks(scale),
    )
    return spans(values, LOOKS, x, settings, analysis.short_title)


FIGURES = (
    Figure(
        name="latency",
        section="distributions",
        title="Latency of one I/O",
        caption="From the median to the largest I/O of a setting, fastest setting on top. Median "
        "and 99 % are those of the middle repeat, the largest is of all repeats. A long bar means "
        "that some I/Os waited far longer than most; high medians with many streams are queueing, "
        "no fault.",
        needs=("setting", "phase", "latency_p50_ns", "latency_p99_ns", "latency_max_ns"),
        draw=each_phase(chart),
        order=40,
    ),
)
