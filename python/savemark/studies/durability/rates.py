"""The fsync study: what the application saw and what became durable, on the same scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import altair as alt

from savemark.report.analysis import Analysis
from savemark.report.figure import Figure, Panel, heading
from savemark.report.marks import WIDTH, inline
from savemark.report.palette import level_scale
from savemark.stats import median
from savemark.studies.durability.policies import NEEDS, Setting, settings, why_not
from savemark.units import rate_text

RATES: dict[str, Callable[[Setting], list[float]]] = {
    "as the application saw it": lambda one: one.seen,
    "made durable": lambda one: one.durable,
}


def draw(analysis: Analysis) -> list[Panel]:
    """Two panels per target."""
    panels = []
    for result in analysis.results:
        found = settings(analysis, result.label)
        where = result.label if len(analysis.results) > 1 else ""
        values = [rate / 1e9 for one in found for of in RATES.values() for rate in of(one)]
        domain = [min(values) * 0.8, max(values) * 1.25] if values else [0.001, 0.01]
        panels += [
            Panel(heading(name, where), _panel(found, of, domain)) for name, of in RATES.items()
        ]
    return panels


def _panel(found: list[Setting], of: Callable[[Setting], list[float]], domain: list[float]) -> Any:
    names = list(dict.fromkeys(one.policy for one in found))
    rows = []
    for one in found:
        rates = [rate / 1e9 for rate in of(one)]
        tip = f"{one.policy}, {one.threads} threads: {rate_text(median(rates) * 1e9)}"
        row = {"policy": one.policy, "threads": one.threads, "tip": tip}
        rows.append(row | {"y": median(rates), "low": min(rates), "high": max(rates)})
    colour, shape = level_scale("policy", names)
    base = alt.Chart(inline(rows)).encode(
        x=alt.X("threads:O", title="threads", axis=alt.Axis(labelAngle=0)),
        color=alt.Color("policy:N", scale=colour, sort=names, legend=alt.Legend(columns=4)),
    )
    scale = alt.Scale(type="log", domain=domain, nice=False)
    y = alt.Y("y:Q", title="GB/s (log scale)", scale=scale, axis=alt.Axis(format="~g"))
    bars = base.mark_rule(opacity=0.6).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q")
    marks = base.mark_point(filled=True, size=36, opacity=1).encode(
        y=y, shape=alt.Shape("policy:N", scale=shape, sort=names), description="tip:N"
    )
    line = base.mark_line(strokeWidth=1.3, opacity=0.7, aria=False).encode(y=y)
    return (line + bars + marks).properties(width=WIDTH + 40, height=300)


FIGURES = (
    Figure(
        name="policies_rates",
        section="policies",
        title="Seen and durable",
        caption="User bytes per second, computing included: the medians, and bars from the slowest "
        "to the fastest repeat. On the left all saves count, on the right only those that are on "
        "stable storage, until they are; both have one scale. Without a sync the two lie orders of "
        "magnitude apart: one save of all reaches the disk, the others were overwritten in memory.",
        needs=NEEDS,
        draw=draw,
        order=25,
        why_not=why_not,
    ),
)
