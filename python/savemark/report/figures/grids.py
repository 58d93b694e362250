"""Three and more factors: grids of the rates until the first and the last worker ended."""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import altair as alt
import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.factors import TARGET, Factor, Roles, roles
from savemark.report.figure import Figure, Panel, heading
from savemark.report.figures._grid_limits import column_of, limits, row_of
from savemark.report.figures.rates import median_with_interval
from savemark.report.marks import inline
from savemark.report.palette import level_scale, light

# More than any page can hold; the GPU study has 336.
MOST_CELLS = 5000

Rate = Callable[[dict[str, Any]], float]
Rows = list[dict[str, Any]]
Statistic = Callable[[Sequence[float]], tuple[float, float, float, str]]
# How bytes get from a storage to a GPU: together with the path, what the original calls a storage.
TRANSFER = "transfer"
# What the rates are made of.
MEASURED = ("first_done_bytes", "first_done_ns", "user_bytes", "elapsed_ns")
# Of more repeats in all only medians and bars are drawn, and a tip names so many of one setting.
MOST_DOTS = 6000
MOST_IN_TIP = 12


@dataclass(frozen=True, slots=True)
class Look:
    """The unit of the vertical axis, what GB/s are multiplied by for it, and the bars."""

    unit: str
    scale: float
    of: Statistic


CORRECTED = Look("GB/s", 1.0, median_with_interval)


def why_not(analysis: Analysis) -> str | None:
    """A grid needs more factors than one panel can hold."""
    if analysis.parts:
        return "the parts of this study have other factors each"
    cells = math.prod(len(factor.levels) for factor in analysis.own_factors)
    if cells > MOST_CELLS:
        return f"the factors make {cells} cells: files of several experiments are no grid"
    few = len(analysis.own_factors) < 3
    return "fewer than three factors varied: one panel holds them" if few else None


def grid(rate: Rate, ceiling: bool, look: Look = CORRECTED) -> Callable[[Analysis], list[Panel]]:
    """A figure of one grid per phase; `rate` gives GB/s of one trial, `ceiling` draws the limit."""
    return partial(_draw, rate, ceiling, look)


def _draw(rate: Rate, ceiling: bool, look: Look, analysis: Analysis) -> list[Panel]:
    panels = []
    for phase in analysis.phases:
        rows, factors = _storages(analysis, analysis.measured(phase))
        found = roles(factors)
        values, letters = _values(rows, found, (rate, look))
        if values:
            tops = limits(analysis, phase, found, values, look.scale) if ceiling else []
            drawn = _chart(values + letters + tops, found, look.unit)
            panels.append(Panel(heading(phase), drawn))
    return panels


def _storages(analysis: Analysis, rows: pl.DataFrame) -> tuple[pl.DataFrame, list[Factor]]:
    """A path and how bytes get from it to the GPU are one storage: one line, not two factors."""
    named = {factor.name: factor for factor in analysis.factors}
    if TARGET not in named or TRANSFER not in named:
        return rows, analysis.factors
    pairs = product(named[TARGET].levels, named[TRANSFER].levels)
    both = Factor(TARGET, tuple(f"{label} {how}" for label, how in pairs), False)
    rest = [factor for factor in analysis.factors if factor.name not in (TARGET, TRANSFER)]
    name = pl.concat_str([TARGET, TRANSFER], separator=" ")
    return rows.with_columns(name.alias(TARGET)), [both, *rest]


def _values(rows: pl.DataFrame, found: Roles, how: tuple[Rate, Look]) -> tuple[Rows, Rows]:
    """The repeats and, per cell, the median with its interval; then the panels' letters."""
    assert found.across is not None
    values: Rows = []
    rate, look = how
    names = [f.name for f in (found.across, found.line, found.row, *found.columns) if f]
    dots = len(rows) <= MOST_DOTS
    rows = rows.sort("repeat").select(*names, *MEASURED)
    for key, part in rows.group_by(names, maintain_order=True):
        place = dict(zip(names, map(str, key), strict=True))
        head = {
            "across": found.across.shown(place[found.across.name]),
            "line": place[found.line.name] if found.line else "",
            "shift": _shift(found.line, place),
            "row": row_of(found, place),
            "column": column_of(found, place),
        }
        speeds = [look.scale * rate(row) for row in part.select(MEASURED).to_dicts()]
        if dots:
            values += [head | {"kind": "repeat", "y": speed} for speed in speeds]
        middle, low, high, kind = look.of(speeds)
        words = ", ".join(f"{f.title} {place[f.name]}" for f in _all(found))
        tip = f"{words}: median {middle:.3g} {look.unit} [{low:.3g} {high:.3g}]"
        named = " ".join(f"{speed:.3g}" for speed in speeds[:MOST_IN_TIP])
        tip += f" ({kind}); repeats {named}{' …' if len(speeds) > MOST_IN_TIP else ''}"
        ends: dict[str, Any] = {"low": low, "high": high, "tip": tip}
        ends["joined"] = found.across.joined(place[found.across.name])
        values.append(head | {"kind": "median", "y": middle, **ends})
    return values, _letters(found, values)


def _shift(line: Factor | None, place: dict[str, str]) -> float:
    """Where a line's marks stand beside the tick, from -1 to 1."""
    if line is None or len(line.levels) < 2:
        return 0.0
    return 2 * line.levels.index(place[line.name]) / (len(line.levels) - 1) - 1


def _all(found: Roles) -> list[Factor]:
    return [f for f in (found.line, *found.columns, found.row, found.across) if f]


def _order(found: Roles) -> tuple[list[str], list[str]]:
    """The heads of rows and columns in the order of their levels."""
    rows = [row_of(found, {found.row.name: v}) for v in found.row.levels] if found.row else [""]
    names = [f.name for f in found.columns]
    sets = product(*(f.levels for f in found.columns))
    return rows, [column_of(found, dict(zip(names, levels, strict=True))) for levels in sets]


def _letters(found: Roles, values: Rows) -> Rows:
    seen = {(row["row"], row["column"]) for row in values}
    rows, columns = _order(found)
    places = [place for place in product(rows, columns) if place in seen]
    marks = _names(len(places))
    return [
        {"kind": "letter", "row": row, "column": column, "letter": f"({mark})"}
        for (row, column), mark in zip(places, marks, strict=True)
    ]


def _names(count: int) -> list[str]:
    """`a` to `z`, then `aa`, `ab` and so on."""
    letters = string.ascii_lowercase
    return [(letters[i // 26 - 1] if i >= 26 else "") + letters[i % 26] for i in range(count)]


def _chart(values: Rows, found: Roles, unit: str) -> Any:
    assert found.across is not None
    rows, columns = _order(found)
    lines = list(found.line.levels) if found.line else [""]
    colour, shape = level_scale(found.line.name if found.line else "", lines)
    legend = alt.Legend(
        title=found.line.title if found.line else None, titleOrient="left", titlePadding=22
    )
    width, height = max(96, 960 // len(columns) - 14), 118
    x = alt.X("across:O", sort=[found.across.shown(v) for v in found.across.levels],
              title=found.across.title, axis=alt.Axis(labelAngle=0, labelOverlap=True),
              scale=alt.Scale(paddingInner=0, paddingOuter=0))  # fmt: skip
    y = alt.Y("y:Q", title=unit, axis=alt.Axis(tickCount=4))
    # Side by side, or the intervals of several lines would hide each other.
    middle = width / len(found.across.levels) / 2
    beside = alt.Scale(domain=[-1, 1], range=[middle - 4, middle + 4])
    offset = alt.XOffset("shift:Q", scale=beside)
    dye = alt.Color("line:N", scale=colour, sort=lines, legend=legend if found.line else None)
    base = alt.Chart().encode(x=x, y=y, color=dye)
    median = base.transform_filter("datum.kind == 'median'")
    layers = _limits(colour, y, bool(found.line and found.line.name == TARGET))
    if found.across.numeric:
        layers.append(
            median.transform_filter("datum.joined")
            .mark_line(strokeWidth=1, opacity=0.55, aria=False)
            .encode(xOffset=offset)
        )
    layers += [
        median.mark_rule(strokeWidth=1.3, aria=False).encode(
            xOffset=offset, y=alt.Y("low:Q", title=unit), y2="high:Q"
        ),
        base.transform_filter("datum.kind == 'repeat'")
        .mark_circle(size=5, opacity=0.5, aria=False)
        .encode(xOffset=offset),
        median.mark_point(filled=True, size=20, opacity=1).encode(
            xOffset=offset,
            shape=alt.Shape("line:N", scale=shape, legend=legend if found.line else None),
            description="tip:N",
        ),
        alt.Chart()
        .transform_filter("datum.kind == 'letter'")
        .mark_text(align="left", baseline="top", fontSize=12, color=light("quiet"))
        .encode(x=alt.value(4), y=alt.value(2), text="letter:N"),
    ]
    both: dict[str, Any] = {"labelFontSize": 12, "title": None, "labelPadding": 6}
    return (
        alt.layer(*layers, data=inline(values))
        .properties(width=width, height=height)
        .facet(
            row=alt.Row("row:N", sort=rows, header=alt.Header(**both, labelOrient="left"))
            if found.row
            else alt.Undefined,
            column=alt.Column("column:N", sort=columns, header=alt.Header(**both)),
            spacing=10,
        )
        .resolve_scale(xOffset="shared")
    )


def _limits(colour: alt.Scale, y: alt.Y, own: bool) -> list[Any]:
    """Lines in the colour of their target, lines with a name, and names of what is above all."""
    base = alt.Chart().transform_filter("datum.kind == 'ceiling'")
    look: dict[str, Any] = {"strokeDash": [5, 3], "strokeWidth": 1.1, "aria": False}
    named = base.transform_filter("datum.line == ''")
    words: dict[str, Any] = {"align": "right", "fontSize": 9, "color": light("limit")}
    right = alt.value("width")
    above = alt.Chart().transform_filter("datum.kind == 'above'")
    layers = [
        named.mark_rule(**look, color=light("limit")).encode(y=y),
        named.transform_filter("datum.words")
        .mark_text(**words, baseline="bottom", dx=-2, dy=-1, aria=False)
        .encode(x=right, y=y, text="words:N"),
        above.mark_text(**words, baseline="top", dx=-2, aria=False).encode(
            x=right, y=alt.value(2), text="words:N"
        ),
    ]
    if own:
        mine = base.transform_filter("datum.line != ''").mark_rule(**look, opacity=0.8)
        layers.append(mine.encode(y=y, color=alt.Color("line:N", scale=colour)))
    return layers


def per(amount: str, time: str) -> Rate:
    """GB/s of one trial from two columns."""

    def rate(row: dict[str, Any]) -> float:
        return float((row[amount] or 0) / max(row[time] or 0, 1))

    return rate


HOW: Sequence[str] = (
    "Rows and columns are factors, each panel has its letter, all share one axis. A big mark is "
    "the median of a setting, its bar the 95 % interval (below 6 repeats: the range), the small "
    "dots are its repeats; hover or focus a big mark for them. Marks of one x stand side by side "
    "only to be seen.",
    "Dashed: the ceiling of the storage in the same colour, measured in this run, or what the "
    "words beside it say; PCIe is what the links of the panel's GPUs carry together, before the "
    "headers of packets take their share.",
)


def difference(row: dict[str, Any]) -> float:
    """|first − last| of one trial, GB/s."""
    first = per("first_done_bytes", "first_done_ns")(row)
    return abs(first - per("user_bytes", "elapsed_ns")(row))


FIGURES = (
    Figure(
        name="grid_last",
        section="picture",
        title="Until the last worker ended",
        caption=f"Bytes of all workers / time until the last one ended. {' '.join(HOW)}",
        needs=("setting", "phase", "elapsed_ns", "user_bytes"),
        draw=grid(per("user_bytes", "elapsed_ns"), ceiling=True),
        order=11,
        why_not=why_not,
        columns=1,
        wide=True,
    ),
    Figure(
        name="grid_first",
        section="distributions",
        title="Until the first worker ended",
        caption="Bytes that all workers together had moved when the first one ended / the time "
        f"until then: the rate while everybody still worked. {' '.join(HOW)}",
        needs=("setting", "phase", "first_done_ns", "first_done_bytes"),
        draw=grid(per("first_done_bytes", "first_done_ns"), ceiling=True),
        order=42,
        why_not=why_not,
        columns=1,
        wide=True,
    ),
    Figure(
        name="grid_diff",
        section="distributions",
        title="Difference of first and last",
        caption="|until the first − until the last|, trial by trial: what the slowest workers "
        f"cost. Large differences of very short trials are start-up, no property of the storage. "
        f"{HOW[0]}",
        needs=("setting", "phase", "first_done_ns", "first_done_bytes", "user_bytes"),
        draw=grid(difference, ceiling=False),
        order=43,
        why_not=why_not,
        columns=1,
        wide=True,
    ),
)
