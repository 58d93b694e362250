"""The picture of one or two factors: time against the first, every repeat a mark."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.factors import Factor, Roles, roles
from savemark.report.figure import Figure, each_phase
from savemark.report.io500 import scored
from savemark.report.marks import WIDTH, few, inline, seconds_scale, ticks
from savemark.report.palette import level_scale, light
from savemark.report.text import gbs, seconds
from savemark.stats import TargetResult
from savemark.stats.ceilings import SIDES

ONLY = Factor("setting", ("the only setting",), False)


def why_not(analysis: Analysis) -> str | None:
    """Two factors fit one panel; more make a grid."""
    if analysis.parts or analysis.counted:
        return "speeds are drawn, part by part"
    if scored(analysis):
        return "its phases end on the clock: their rates are drawn"
    many = len(analysis.own_factors)
    return f"{many} factors varied: the grid shows them" if many > 2 else None


def chart(analysis: Analysis, result: TargetResult, name: str) -> Any | None:
    """The marks, medians, lines and ceiling of one phase."""
    found = roles(analysis.own_factors)
    rows = analysis.measured(name).filter(pl.col("target") == result.label)
    if rows.is_empty():
        return None
    unit = analysis.unit(name)
    dots, middles, left_out = _rows(rows, found, (name, unit))
    top = _top(result, name)
    across, line = found.across or ONLY, found.line
    levels = line.levels if line else ("",)
    colour, shape = level_scale(line.name if line else "", levels)
    scale, kind = seconds_scale([row["s"] for row in dots] + [row["y"] for row in top])
    for row in dots + middles:
        row["place"] = levels.index(row["line"]) + row.pop("shift", 0.0)
    legend = alt.Legend(columns=min(len(levels), 8)) if line else None
    place = {
        "x": alt.X(
            "across:O",
            sort=[across.shown(level) for level in across.levels],
            title=_title(across) + left_out,
            scale=alt.Scale(paddingInner=0.06, paddingOuter=0.02),
            axis=alt.Axis(labelAngle=0, tickBand="extent", grid=True, labelPadding=8),
        ),
        "xOffset": alt.XOffset("place:Q", scale=alt.Scale(domain=[-0.7, len(levels) - 0.3])),
        "y": alt.Y(
            "s:Q",
            scale=scale,
            axis=ticks(scale),
            title=f"{name} time, {unit} ({kind}; lower is better)",
        ),
        "color": alt.Color("line:N", scale=colour, sort=list(levels), legend=legend),
    }
    wide = min(17, round(0.8 * WIDTH / len(across.levels) / len(levels)))
    marks = (
        alt.Chart(inline(dots))
        .mark_point(filled=True, opacity=0.85, size=26)
        .encode(**place, description="tip:N", shape=alt.Shape("line:N", scale=shape, legend=legend))
    )
    middle = (
        alt.Chart(inline(middles))
        .mark_tick(orient="horizontal", thickness=1.6, width=wide, aria=False)
        .encode(**place)
    )
    layers = [*_lines(middles, across, place), middle, marks, *_ceiling(top, scale)]
    return alt.layer(*layers).properties(width=WIDTH, height=340)


def _lines(middles: list[dict[str, Any]], across: Factor, place: dict[str, Any]) -> list[alt.Chart]:
    joined = [row for row in middles if across.joined(row["level"])]
    if not joined:
        return []
    return [
        alt.Chart(inline(joined)).mark_line(strokeWidth=1, opacity=0.4, aria=False).encode(**place)
    ]


def _title(across: Factor) -> str:
    if across.name == "streams" and "0" in across.levels:
        return "streams (0 = one sequential archive)"
    return across.title


def _rows(
    rows: pl.DataFrame, found: Roles, named: tuple[str, str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], str]:
    across, line = found.across, found.line
    name, unit = named
    dots, middles = [], []
    drawn, left_out = few(rows)
    shown = drawn.partition_by("setting", as_dict=True)
    for (setting,), part in rows.group_by("setting", maintain_order=True):
        first = part.row(0, named=True)
        level = first[across.name] if across else ONLY.levels[0]
        head = {"across": (across or ONLY).shown(level), "line": first[line.name] if line else ""}
        head["level"] = level
        middles.append(head | {"s": part["s"].median()})
        last = int(part["repeat"].max() or 0) or 1  # type: ignore[arg-type]
        for row in shown[(setting,)].sort("repeat").to_dicts():
            clock = row["elapsed_ns"] / 1e9
            rate = f", {gbs(row['user_bytes'] / clock)} GB/s" if row["user_bytes"] else ""
            per = "" if unit == "seconds" else f", {row['s']:.3g} {unit}"
            tip = f"{setting}, repeat {row['repeat'] + 1}: {name} {seconds(clock)} s{per}{rate}"
            # Side by side in the order of the repeats, so that equal times stay countable.
            shift = 0.64 * row["repeat"] / last - 0.32
            dots.append(head | {"s": row["s"], "tip": tip, "shift": shift})
    return dots, middles, left_out


def _top(result: TargetResult, name: str) -> list[dict[str, Any]]:
    sizes = {c.phases[name].user_bytes for c in result.cells if name in c.phases}
    ceiling = result.ceilings.get(SIDES[name][0]) if name in SIDES and len(sizes) == 1 else None
    if ceiling is None or not ceiling.rate:
        return []
    least = sizes.pop() / ceiling.rate
    plain = [c.phases[name] for c in result.cells if c.codec == "none" and name in c.phases]
    if any(phase.seconds.median < least for phase in plain):
        return []  # what was passed is no limit
    return [{"y": least, "text": f"{ceiling.title} {gbs(ceiling.rate)} GB/s"}]


def _ceiling(top: list[dict[str, Any]], scale: alt.Scale) -> list[alt.Chart]:
    if not top:
        return []
    data = inline(top)
    rule = alt.Chart(data).mark_rule(
        strokeDash=[6, 4], strokeWidth=1.4, color=light("limit"), aria=False
    )
    text = alt.Chart(data).mark_text(
        align="left", baseline="top", dy=5, dx=4, fontSize=12, color=light("limit")
    )
    return [
        rule.encode(y=alt.Y("y:Q", scale=scale)),
        text.encode(
            y=alt.Y("y:Q", scale=scale), x=alt.value(0), text="text:N", description="text:N"
        ),
    ]


FIGURES = (
    Figure(
        name="times",
        section="picture",
        title="Time of every setting",
        caption="Each mark is one repeat, the bar across it the median; hover or tap a mark for "
        "its trial. The dashed line is the time that the disk’s ceiling, measured in this run, "
        "allows for uncompressed bytes; it is not drawn where a setting without a codec was "
        "faster. Thin lines join medians of numbers, never of categories; streams 0 is a different "
        "archive and stays apart.",
        needs=("setting", "phase", "elapsed_ns"),
        draw=each_phase(chart),
        order=10,
        why_not=why_not,
    ),
)
