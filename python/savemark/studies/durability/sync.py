"""The fsync study: how long one sync takes."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.figure import Figure, Panel, heading
from savemark.report.figures.latency import LOOKS, POINTS
from savemark.report.marks import seconds_scale, spans, ticks
from savemark.report.text import span
from savemark.stats import median
from savemark.studies.durability.policies import NEEDS, best, settings, why_not


def draw(analysis: Analysis) -> list[Panel]:
    """A panel per target, of each policy at its best number of threads."""
    panels = []
    for result in analysis.results:
        values: list[dict[str, Any]] = []
        for one in best(settings(analysis, result.label)):
            rows = one.rows.filter(pl.col("sync_latency_count") > 0)
            if rows.is_empty():
                continue
            name = f"{one.policy} · {one.threads}"
            for point, label in POINTS.items():
                found = rows[f"sync_latency_{point}_ns"].to_list()
                # Percentiles of several runs cannot be averaged: the median run, or the worst.
                value = max(found) if point == "max" else median(found)
                tip = f"{one.policy}, {one.threads} threads: {label} {span(value)} per sync"
                values.append(
                    {"setting": name, "point": label, "ms": max(value, 1) / 1e6, "tip": tip}
                )
        if values:
            where = result.label if len(analysis.results) > 1 else ""
            panels.append(Panel(heading("sync", where), _panel(values)))
    return panels


def _panel(values: list[dict[str, Any]]) -> Any:
    scale, _ = seconds_scale([row["ms"] for row in values])
    title = "latency of one sync, milliseconds (log scale)"
    x = alt.X("ms:Q", scale=scale, title=title, axis=ticks(scale))
    order = list(dict.fromkeys(row["setting"] for row in values))
    return spans(values, LOOKS, x, order, "policy · threads")


FIGURES = (
    Figure(
        name="policies_sync",
        section="policies",
        title="Latency of one sync",
        caption="From the median to the longest fsync (or what the policy has for it; of group "
        "commit the wait for the fsync that is shared, of linked writes the write with it). "
        "Policies without a call of their own, as O_DSYNC and the thread beside the solver, are "
        "not here.",
        needs=(*NEEDS, "sync_latency_p50_ns"),
        draw=draw,
        order=27,
        why_not=why_not,
    ),
)
