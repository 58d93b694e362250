"""The pair of factors that most need to be known together."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.effects import effects
from savemark.report.factors import Factor, roles
from savemark.report.figure import Figure, Panel, heading
from savemark.report.figures._effects import cells, why_not
from savemark.report.marks import WIDTH, inline, seconds_scale, ticks
from savemark.report.palette import level_scale


def draw(analysis: Analysis) -> list[Panel]:
    """One panel per phase: its strongest pair."""
    panels = []
    named = {factor.name: factor for factor in analysis.factors}
    for phase in analysis.phases:
        found = effects(analysis.measured(phase), analysis.factors)
        if found is None:
            continue
        pair, share = max(found.pairs.items(), key=lambda item: item[1])
        places = roles([named[name] for name in pair])
        assert places.across is not None  # two factors have two places
        assert places.line is not None
        title = f"{heading(phase)}: {places.across.title} × {places.line.title} ({share:.1%})"
        panels.append(Panel(title, _chart(analysis, phase, places.across, places.line)))
    return panels


def _chart(analysis: Analysis, phase: str, across: Factor, line: Factor) -> Any:
    table, unit = cells(analysis, phase), analysis.unit(phase)
    means = table.group_by(across.name, line.name, maintain_order=True).agg(pl.col("s").mean())
    values: list[dict[str, Any]] = [
        {"across": across.shown(row[across.name]), "line": line.shown(row[line.name])}
        | {"s": row["s"], "joined": across.joined(row[across.name])}
        | {
            "tip": f"{across.title} {across.shown(row[across.name])}, "
            f"{line.title} {line.shown(row[line.name])}: {row['s']:.3g} {unit} on average"
        }
        for row in means.to_dicts()
    ]
    levels = [line.shown(level) for level in line.levels]
    colour, shape = level_scale(line.name, levels)
    scale, kind = seconds_scale([row["s"] for row in values])
    legend = alt.Legend(title=line.title, titleOrient="left", titlePadding=22, columns=6)
    base = alt.Chart(inline(values)).encode(
        x=alt.X(
            "across:N",
            sort=[across.shown(level) for level in across.levels],
            axis=alt.Axis(labelAngle=0, title=across.title),
        ),
        y=alt.Y("s:Q", scale=scale, axis=ticks(scale), title=f"{phase} time, {unit} ({kind})"),
        color=alt.Color("line:N", scale=colour, sort=levels, legend=legend),
    )
    marks = base.mark_point(filled=True, size=40, opacity=1).encode(
        shape=alt.Shape("line:N", scale=shape, sort=levels, legend=legend), description="tip:N"
    )
    lines = base.transform_filter("datum.joined").mark_line(
        strokeWidth=1.2, opacity=0.6, aria=False
    )
    layers = [lines, marks] if across.numeric else [marks]
    return alt.layer(*layers).properties(width=WIDTH - 20, height=240)


FIGURES = (
    Figure(
        name="interaction",
        section="effects",
        title="The strongest interaction",
        caption="Mean time of two factors together, over all else. Where the marks of each colour "
        "keep the same distances from left to right, one may be chosen without looking at the "
        "other; where they close up, spread or cross, choose both together. In brackets: the share "
        "of the variation that only the pair explains.",
        needs=("setting", "phase", "elapsed_ns"),
        draw=draw,
        order=52,
        why_not=why_not,
    ),
)
