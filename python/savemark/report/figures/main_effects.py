"""One panel per factor: what each of its levels does, all else being varied alike."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.factors import Factor
from savemark.report.figure import Figure, Panel, heading
from savemark.report.figures._effects import cells, why_not
from savemark.report.marks import inline, seconds_scale, ticks
from savemark.report.palette import light


def draw(analysis: Analysis) -> list[Panel]:
    """One panel per phase, the factors side by side on one axis of time."""
    return [Panel(heading(phase), _chart(analysis, phase)) for phase in analysis.phases]


def _chart(analysis: Analysis, phase: str) -> Any:
    table = cells(analysis, phase)
    scale, kind = seconds_scale(table["s"].to_list())
    unit = analysis.unit(phase)
    title = f"{phase} time, {unit} ({kind})"
    axes = [_axis(scale, title, place == 0) for place in range(len(analysis.factors))]
    parts = [
        _factor(table, factor, unit, alt.Y("s:Q", scale=scale, axis=axis))
        for factor, axis in zip(analysis.factors, axes, strict=True)
    ]
    return alt.hconcat(*parts, spacing=14)


def _axis(scale: alt.Scale, title: str, first: bool) -> alt.Axis:
    axis = ticks(scale)
    axis.title = title if first else None
    if not first:
        axis.labels, axis.minExtent = False, 0
    return axis


def _factor(table: pl.DataFrame, factor: Factor, unit: str, y: alt.Y) -> Any:
    order = [factor.shown(level) for level in factor.levels]
    rows = table.with_columns(
        level=pl.col(factor.name).replace({v: factor.shown(v) for v in factor.levels})
    )
    means = [
        row | {"tip": f"{factor.title} {row['level']}: {row['s']:.3g} {unit} on average"}
        for row in rows.group_by("level", maintain_order=True).agg(pl.col("s").mean()).to_dicts()
    ]
    crowded = max(map(len, order)) > 4
    axis = alt.Axis(
        labelAngle=-50 if crowded else 0, labelOverlap=False, title=factor.title, grid=False
    )
    x = alt.X("level:N", sort=order, axis=axis)
    dots = alt.Chart(inline(rows.select("level", "s").to_dicts())).mark_circle(
        size=8, opacity=0.35, color=light("quiet"), aria=False
    )
    middle = alt.Chart(inline(means)).mark_tick(
        orient="horizontal", thickness=2.4, width=18, opacity=1, color=light("first")
    )
    layers = [dots.encode(x=x, y=y), middle.encode(x=x, y=y, description="tip:N")]
    if factor.numeric:
        joined = [row for row in means if factor.joined(row["level"])]
        line = alt.Chart(inline(joined)).mark_line(
            strokeWidth=1, opacity=0.6, color=light("first"), aria=False
        )
        layers.insert(1, line.encode(x=x, y=y))
    return alt.layer(*layers).properties(width=max(80, 34 * len(order)), height=200)


FIGURES = (
    Figure(
        name="main_effects",
        section="effects",
        title="What each level does",
        caption="A dot is the median time of one setting, the bar the mean over all settings with "
        "that level (times are averaged, never ratios; every level meets the same others, so the "
        "bars compare like with like). Dots far apart under one level: the other factors matter "
        "more.",
        needs=("setting", "phase", "elapsed_ns"),
        draw=draw,
        order=51,
        why_not=why_not,
        columns=1,
        wide=True,
    ),
)
