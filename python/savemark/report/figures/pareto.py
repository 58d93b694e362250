"""Time against CPU, and against stored bytes: which settings are not beaten in both."""

from __future__ import annotations

from typing import Any

import altair as alt

from savemark.advice.pareto import front
from savemark.report.analysis import Analysis
from savemark.report.figure import Figure, Panel
from savemark.report.marks import WIDTH, inline, seconds_scale, ticks
from savemark.report.palette import light
from savemark.report.text import seconds
from savemark.stats import Cell, TargetResult

# Names are written beside so many of the unbeaten; all tell theirs on hover.
NAMED = 7
FRONT, BEATEN = "unbeaten", "beaten in both"


def why_not(analysis: Analysis) -> str | None:
    """Speed is traded for cost within one kind of work."""
    return "the parts of this study do unlike work" if analysis.parts else None


def draw(analysis: Analysis) -> list[Panel]:
    """Two panels per target where there is something to trade."""
    several = len(analysis.results) > 1
    panels = []
    for result in analysis.results:
        cells = [c for c in result.cells if c.total and not c.blocked and _whole(c, result)]
        label, scales = f"{result.label} · " if several else "", result.scales()
        if len({round(c.cpu_s_per_gib, 6) for c in cells}) > 1:
            costs = [(c, scales[c.setting], c.cpu_s_per_gib) for c in cells]
            panels.append(Panel(f"{label}Time and CPU", _chart(costs, "CPU-seconds per GiB")))
        if len({round(c.ratio, 3) for c in cells}) > 1:
            costs = [(c, scales[c.setting], 1 / c.ratio) for c in cells]
            panels.append(
                Panel(f"{label}Time and bytes", _chart(costs, "stored bytes per byte of state"))
            )
    return panels


def _whole(cell: Cell, result: TargetResult) -> bool:
    return all(name in cell.phases for name in result.phases)


def _chart(costs: list[tuple[Cell, float, float]], title: str) -> Any:
    points = [(c.total.median * scale if c.total else 0.0, cost) for c, scale, cost in costs]
    values: list[dict[str, Any]] = []
    unbeaten = front(points)
    for place, ((cell, _, cost), (s, _)) in enumerate(zip(costs, points, strict=True)):
        tip = f"{cell.setting}: {seconds(s)} s, {cost:.3g} {title}"
        values.append(
            {"s": s, "cost": cost, "tip": tip, "name": cell.setting}
            | {"kind": FRONT if place in unbeaten else BEATEN}
        )
    x_scale, kind = seconds_scale([row["s"] for row in values])
    y_scale, y_kind = seconds_scale([row["cost"] for row in values])
    colour = alt.Scale(domain=[FRONT, BEATEN], range=[light("first"), light("third")])
    shape = alt.Scale(domain=[FRONT, BEATEN], range=["diamond", "circle"])
    size = alt.Scale(domain=[FRONT, BEATEN], range=[90, 34])
    x = alt.X("s:Q", scale=x_scale, axis=ticks(x_scale), title=f"total time, seconds ({kind})")
    y = alt.Y("cost:Q", scale=y_scale, axis=ticks(y_scale), title=f"{title} ({y_kind})")
    marks = (
        alt.Chart(inline(values))
        .mark_point(filled=True, opacity=0.85)
        .encode(
            x=x,
            y=y,
            color=alt.Color("kind:N", scale=colour),
            shape=alt.Shape("kind:N", scale=shape),
            size=alt.Size("kind:N", scale=size, legend=None),
            description="tip:N",
        )
    )
    best = [row for row in values if row["kind"] == FRONT]
    if len(best) > NAMED or max((len(row["name"]) for row in best), default=0) > 24:
        return marks.properties(width=WIDTH, height=240)
    names = (
        alt.Chart(inline(best))
        .mark_text(align="left", dx=8, dy=-7, fontSize=11.5, color=light("text"), aria=False)
        .encode(x=x, y=y, text="name:N")
    )
    return (marks + names).properties(width=WIDTH, height=240)


FIGURES = (
    Figure(
        name="pareto",
        section="effects",
        title="What speed costs",
        caption="A mark is one setting: to the left is faster, lower is cheaper. A diamond is a "
        "setting that no other beats in both; anything else wastes time or what is on the other "
        "axis.",
        needs=("setting", "phase", "elapsed_ns", "cpu_user_ns"),
        draw=draw,
        order=55,
        why_not=why_not,
    ),
)
