"""How long each rank took: a slow node or a slow target shows as a step."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.figure import Figure, Panel, heading
from savemark.report.marks import WIDTH, inline
from savemark.report.palette import light

# Nodes that a reader can tell apart by colour; more are drawn in turns.
COLOURS = ("first", "second", "third", "fourth", "limit")


def draw(analysis: Analysis) -> list[Panel]:
    """A panel per phase, of the trials with most ranks."""
    rows = analysis.ranks
    if rows.is_empty():
        return []
    rows = rows.filter(pl.col("of") == pl.col("of").max().over("label", "phase"))
    several = rows["label"].n_unique() > 1
    return [
        Panel(heading(str(phase), str(label) if several else ""), _chart(part))
        for (label, phase), part in rows.group_by("label", "phase", maintain_order=True)
    ]


def _chart(rows: pl.DataFrame) -> Any:
    each = rows.group_by("rank", "node", maintain_order=True).agg(
        slow=pl.col("slow").median(), low=pl.col("slow").min(), high=pl.col("slow").max()
    )
    values = [
        {**row, "tip": f"rank {row['rank']} on {row['node']}: {row['slow']:.2f} × the median rank"}
        for row in each.to_dicts()
    ]
    nodes = list(dict.fromkeys(row["node"] for row in values))
    colours = [light(COLOURS[place % len(COLOURS)]) for place in range(len(nodes))]
    count = max(row["rank"] for row in values) + 1
    x = alt.X(
        "rank:Q",
        title="rank",
        scale=alt.Scale(domain=[-0.5, count - 0.5], nice=False),
        axis=alt.Axis(tickMinStep=1, tickCount=min(count, 8), format="d", grid=False),
    )
    top = max(1.2, max(row["high"] for row in values) * 1.05)
    scale = alt.Scale(domain=[min(0.9, min(row["low"] for row in values) * 0.95), top], nice=False)
    base = alt.Chart(inline(values)).encode(
        x=x,
        color=alt.Color("node:N", scale=alt.Scale(domain=nodes, range=colours), sort=nodes),
        description="tip:N",
    )
    spread = base.mark_rule(strokeWidth=2, opacity=0.4, aria=False).encode(
        y=alt.Y("low:Q", scale=scale, title="time, × the median rank"), y2="high:Q"
    )
    dots = base.mark_point(filled=True, size=44, opacity=1).encode(y=alt.Y("slow:Q", scale=scale))
    line = (
        alt.Chart(inline([{"one": 1.0}]))
        .mark_rule(color=light("quiet"), strokeDash=[3, 3], aria=False)
        .encode(y=alt.Y("one:Q", scale=scale))
    )
    return (line + spread + dots).properties(width=WIDTH - 40, height=190)


def why_not(analysis: Analysis) -> str | None:
    """Only several ranks can be told apart."""
    return "no trial ran on several ranks" if analysis.ranks.is_empty() else None


FIGURES = (
    Figure(
        name="ranks",
        section="distributions",
        title="Time of each rank",
        caption="Time until a rank had done its part over that of the median rank of the same "
        "trial: the median of all repeats, and from the least to the most, in the colour of its "
        "node. All settings with most ranks together. A rank above the others in each repeat keeps "
        "them waiting; a step between nodes is a slow node, link or storage target.",
        needs=("setting", "phase"),
        draw=draw,
        order=42,
        why_not=why_not,
    ),
)
