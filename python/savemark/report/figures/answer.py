"""The one chart of the first screen: the speed of the leading settings, each under its limit."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from savemark.report.analysis import Analysis, ranked
from savemark.report.answers import answers
from savemark.report.figure import Figure, Panel
from savemark.report.figures import times
from savemark.report.marks import few, inline
from savemark.report.palette import light
from savemark.report.text import gbs, medium, seconds, where
from savemark.stats import Cell, TargetResult
from savemark.stats.ceilings import Limit
from savemark.stats.cells import BYTES

# So many settings are read at one glance.
ROWS = 6
WIDTH, STEP = 300, 17
LOOKS = {"save": "first", "write": "first", "restore": "second", "read": "second"}
LIMIT = "limit"


def why_not(analysis: Analysis) -> str | None:
    """Settings of one or two factors that move bytes."""
    if why := times.why_not(analysis):
        return why
    cells = [cell for result in analysis.results for cell in result.cells]
    shown = [phase for cell in cells for phase in cell.phases.values()]
    if shown and not any(phase.user_rate and phase.unit == BYTES for phase in shown):
        return "its speeds are not bytes per second"
    return None


def draw(analysis: Analysis) -> list[Panel]:
    """A panel per target, for what its answer is about."""
    several = len(analysis.results) > 1
    panels = []
    for result in analysis.results:
        chart = _chart(analysis, result)
        if chart is not None:
            panels.append(Panel(result.label if several else "", chart))
    return panels


def _chart(analysis: Analysis, result: TargetResult) -> Any | None:
    cells = _shown(analysis, result)
    if not cells:
        return None
    of = medium(analysis.run, result.label)
    dots, middles, limits, left_out = _rows(analysis, result, cells, of)
    if not dots:
        return None
    phases = [name for name in result.phases if any(row["kind"] == name for row in dots)]
    kinds = [*phases, *([LIMIT] if limits else [])]
    colours = [light(LOOKS.get(name, "third")) for name in phases] + [light("limit")]
    shapes = [("circle", "square", "diamond", "cross")[i % 4] for i in range(len(phases))]
    shapes.append("square")
    legend = alt.Legend(columns=len(kinds), orient="top")
    colour = alt.Color("kind:N", legend=legend, sort=kinds,
                       scale=alt.Scale(domain=kinds, range=colours[: len(kinds)]))  # fmt: skip
    shape = alt.Shape("kind:N", legend=legend, sort=kinds,
                      scale=alt.Scale(domain=kinds, range=shapes[: len(kinds)]))  # fmt: skip
    names = [cell.setting for cell in cells]
    top = max([row["rate"] for row in dots] + [row["high"] for row in limits]) * 1.04
    scale = alt.Scale(domain=[0, top], nice=False)
    place = {
        "y": alt.Y("setting:N", sort=names, title=None,
                   axis=alt.Axis(ticks=False, domain=False, labelLimit=150, labelPadding=6)),
        "yOffset": alt.YOffset("row:N", sort=phases, scale=alt.Scale(domain=phases)),
        "x": alt.X("rate:Q", scale=scale, title=f"GB/s (from zero; more is better){left_out}",
                   axis=alt.Axis(tickCount=5, format="~g")),
    }  # fmt: skip
    marks = alt.Chart(inline(dots)).mark_point(filled=True, size=30, opacity=0.75)
    middle = alt.Chart(inline(middles)).mark_tick(thickness=2, height=11, aria=False)
    tops = alt.Chart(inline(limits)).mark_tick(thickness=2.5, height=15, color=light("limit"))
    spans = alt.Chart(inline(limits)).mark_bar(height=4, opacity=0.3, color=light("limit"))
    layers = [
        marks.encode(**place, color=colour, shape=shape, description="tip:N"),
        middle.encode(**place, color=colour),
    ]
    if limits:
        wide = spans.encode(**place | {"x": alt.X("low:Q", scale=scale), "x2": "high:Q"})
        layers = [wide, *layers, tops.encode(**place, description="tip:N")]
    height = STEP * len(names) * len(phases) + 8 * len(names)
    return alt.layer(*layers).properties(width=WIDTH, height=height)


def _shown(analysis: Analysis, result: TargetResult) -> list[Cell]:
    """The fastest settings, the advised one first, and the baseline."""
    cells = [cell for cell in ranked(result)[0] if cell.phases and cell.sized]
    told = [each.answer for each in answers(analysis) if each.result.label == result.label]
    first = [answer.advised for answer in told[:1] if answer.advised]
    last = [answer.baseline for answer in told[:1] if answer.baseline]
    order = {cell.setting: cell for cell in [*first, *cells]}
    fastest = list(order.values())[: ROWS - len(last)]
    names = [cell.setting for cell in fastest]
    return fastest + [cell for cell in last if cell.setting not in names]


def _rows(
    analysis: Analysis, result: TargetResult, cells: list[Cell], of: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]], str]:
    """The repeats, the medians, the limit of each that is one, and words on what is left out."""
    dots, middles, limits, words = [], [], [], ""
    for name in result.phases:
        rows, left_out = few(analysis.rows(result.label, name).filter(pl.col("elapsed_ns") > 0))
        words = words or left_out
        for cell in cells:
            phase = cell.phases.get(name)
            if phase is None or phase.counted or not phase.user_rate:
                continue
            head = {"setting": cell.setting, "row": name}
            middles.append(head | {"kind": name, "rate": phase.user_rate / 1e9})
            share = phase.of_limit
            # What a setting exceeds is no limit of it, whatever was measured.
            if phase.limit and share is not None and share <= 1:
                limits.append(head | {"kind": LIMIT} | _limit(phase.limit, f"limit of {name}", of))
            for row in rows.filter(pl.col("setting") == cell.setting).to_dicts():
                rate = (row["user_bytes"] or 0) / row["elapsed_ns"]
                time = seconds(row["elapsed_ns"] / 1e9)
                tip = (
                    f"{cell.setting}, repeat {row['repeat'] + 1}: {name} {rate:.2f} GB/s, {time} s"
                )
                dots.append(head | {"kind": name, "rate": rate, "tip": tip})
    return dots, middles, limits, words


def _limit(limit: Limit, what: str, of: str) -> dict[str, Any]:
    """Where a limit is drawn, GB/s, and its words."""
    low, high = limit.ends or (limit.rate, limit.rate)
    tip = f"{where(limit, of)}, {what}: {gbs(limit.rate)} GB/s [{gbs(low)} {gbs(high)}]"
    return {"rate": limit.rate / 1e9, "low": low / 1e9, "high": high / 1e9, "tip": tip}


FIGURES = (
    Figure(
        name="answer",
        section="answer",
        title="Speed of the leading settings",
        caption="Each mark is one repeat, the bar through them the median. The purple bar is what "
        "the setting could reach at most, the median of what was measured beside it in this run; "
        "the line through it is its interval, as its repeats scatter, too. In brackets: the 95 % "
        "interval.",
        needs=("setting", "phase", "elapsed_ns", "user_bytes"),
        draw=draw,
        order=1,
        why_not=why_not,
    ),
)
