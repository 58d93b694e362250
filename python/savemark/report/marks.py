"""Parts that several figures are made of: scales, axes, bars of shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from savemark.report.palette import light

WIDTH = 440


def seconds_scale(values: Sequence[float]) -> tuple[alt.Scale, str]:
    """A linear scale from zero, or a logarithmic one from four times the fastest on."""
    low, high = min(values), max(values)
    if high > 4 * low > 0:
        return alt.Scale(type="log", domain=[low * 0.8, high * 1.15], nice=False), "log scale"
    return alt.Scale(domain=[0, high * 1.08], nice=True), "from zero"


def ticks(scale: alt.Scale) -> alt.Axis:
    """Few round labels; on a logarithmic axis 1, 2, 3, 5 of each decade."""
    if scale.to_dict().get("type") != "log":
        return alt.Axis(tickCount=6, format="~g")
    low, high = scale.to_dict()["domain"]
    values = [m * 10.0**e for e in range(-9, 10) for m in (1, 2, 3, 5)]
    return alt.Axis(values=[v for v in values if low <= v <= high], format="~g")


def shares(values: list[dict[str, Any]], x: str, legend: tuple[str, alt.Scale]) -> alt.LayerChart:
    """Bars to 100 %, a row per setting, with the whole written at the end of each bar.

    Seconds on the axis would hide the fast settings behind one slow codec.
    """
    field, scale = legend
    order = list(dict.fromkeys(row["setting"] for row in values))
    ends = list(
        {
            row["setting"]: {"setting": row["setting"], "whole": row["whole"]} for row in values
        }.values()
    )
    y = alt.Y("setting:N", sort=order, title=None, axis=alt.Axis(ticks=False, domain=False))
    percent = alt.Axis(format="%", tickCount=5)
    bars = (
        alt.Chart(alt.InlineData(values=values))
        .mark_bar()
        .encode(
            y=y,
            x=alt.X("share:Q", title=x, scale=alt.Scale(domain=[0, 1]), axis=percent),
            color=alt.Color(f"{field}:N", scale=scale, sort=scale.to_dict()["domain"]),
            order=alt.Order("place:Q"),
            description="tip:N",
        )
    )
    words = (
        alt.Chart(alt.InlineData(values=ends))
        .mark_text(align="left", dx=6, fontSize=11.5, color=light("quiet"), aria=False)
        .encode(y=y, x=alt.datum(1), text="whole:N")
    )
    both = (bars + words).properties(width=WIDTH - 110, height=alt.Step(17))
    joined: alt.LayerChart = both
    return joined
