"""Parts that several figures are made of: scales, axes, bars of shares."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from savemark import escape
from savemark.report.palette import light

WIDTH = 440
# A bar per setting is read up to here; of more settings the fastest are drawn.
BARS = 24
# More marks cover each other, and a page that holds them does not open.
MOST_DOTS = 6000


def inline(values: Sequence[dict[str, Any]]) -> alt.InlineData:
    """Rows as text: altair copies and checks lists again and again, and text it leaves alone."""
    return alt.InlineData(values=_json(values), format=alt.JsonDataFormat(type="json"))


def _json(values: Sequence[dict[str, Any]]) -> str:
    text = json.dumps(values, ensure_ascii=False)
    if text.isprintable() and "\\" not in text:
        return text
    # As in the rest of the chart (see `render`), for a scale names the values of its data.
    rows = (
        {k: escape.printable(v) if isinstance(v, str) else v for k, v in row.items()}
        for row in values
    )
    return json.dumps(list(rows))


def fastest(rows: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The rows of the fastest settings by median time, and how many settings were left out."""
    order = (
        rows.group_by("setting", maintain_order=True)
        .agg(pl.col("elapsed_ns").median())
        .sort("elapsed_ns")
    )
    return rows.join(order.head(BARS), on="setting", how="semi"), max(0, len(order) - BARS)


def few(rows: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Return the repeats to draw, and words on what is left out, "" for nothing.

    Of more than `MOST_DOTS` repeats each so many-th of every setting, its fastest and its slowest.
    """
    step = -(-len(rows) // MOST_DOTS)
    if step <= 1:
        return rows, ""
    time, place = pl.col("elapsed_ns"), pl.int_range(pl.len())
    drawn = (place % step == 0) | (place == time.arg_min()) | (place == time.arg_max())
    return rows.filter(drawn.over("setting")), f" · one repeat in {step}, and the extremes"


def seconds_scale(values: Sequence[float]) -> tuple[alt.Scale, str]:
    """A linear scale from zero, or a logarithmic one from four times the fastest on."""
    low, high = min(values), max(values)
    if high > 4 * low > 0:
        return alt.Scale(type="log", domain=[low * 0.8, high * 1.15], nice=False), "log scale"
    return alt.Scale(domain=[0, high * 1.08], nice=True), "from zero"


# Up to this ratio of largest to smallest, four labels in a decade do not touch.
DENSE = 150


def ticks(scale: alt.Scale) -> alt.Axis:
    """Few round labels; on a logarithmic axis 1, 2, 3, 5 of each decade, of many decades fewer."""
    if scale.to_dict().get("type") != "log":
        return alt.Axis(tickCount=6, format="~g")
    low, high = scale.to_dict()["domain"]
    span = high / low
    steps = (1, 2, 3, 5) if span <= DENSE else (1, 2, 5) if span <= 30 * DENSE else (1,)
    values = [m * 10.0**e for e in range(-9, 10) for m in steps]
    return alt.Axis(values=[v for v in values if low <= v <= high], format="~g")


def names_axis(title: str | None) -> alt.Axis:
    """The names of settings down the left side, and above them what their parts are."""
    look: dict[str, Any] = {
        "titleAngle": 0,
        "titleAlign": "right",
        "titleAnchor": "end",
        "titleX": -4,
    }
    look |= {"titleY": -9, "titleFontSize": 11.5, "titleColor": light("quiet")}
    return alt.Axis(title=title, ticks=False, domain=False, labelLimit=230, **look)


def spans(
    values: list[dict[str, Any]],
    looks: dict[str, tuple[str, str]],
    x: alt.X,
    order: list[str],
    y_title: str | None,
) -> alt.LayerChart:
    """A line per setting between its points; `looks` gives colour and shape by the name of a point.

    Rows have `setting`, `point`, `tip` and the field that `x` shows.
    """
    names = list(looks)
    colour = alt.Scale(domain=names, range=[light(looks[n][0]) for n in names])
    shape = alt.Scale(domain=names, range=[looks[n][1] for n in names])
    y = alt.Y("setting:N", sort=order, axis=names_axis(y_title))
    base = alt.Chart(inline(values)).encode(y=y, x=x)
    line = base.mark_line(color=light("grid"), strokeWidth=3, aria=False).encode(detail="setting:N")
    dots = base.mark_point(filled=True, size=44, opacity=1).encode(
        color=alt.Color("point:N", scale=colour, sort=names),
        shape=alt.Shape("point:N", scale=shape, sort=names),
        description="tip:N",
    )
    chart: alt.LayerChart = (line + dots).properties(width=WIDTH - 40, height=alt.Step(17))
    return chart


def shares(
    values: list[dict[str, Any]], y_title: str | None, x: str, legend: tuple[str, alt.Scale]
) -> alt.LayerChart:
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
    y = alt.Y("setting:N", sort=order, axis=names_axis(y_title))
    percent = alt.Axis(format="%", tickCount=5)
    bars = (
        alt.Chart(inline(values))
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
        alt.Chart(inline(ends))
        .mark_text(align="left", dx=6, fontSize=11.5, color=light("quiet"), aria=False)
        .encode(y=y, x=alt.datum(1), text="whole:N")
    )
    both = (bars + words).properties(width=WIDTH - 110, height=alt.Step(17))
    joined: alt.LayerChart = both
    return joined
