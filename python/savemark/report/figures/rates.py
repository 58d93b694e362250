"""Speeds against one factor, part by part: of a study in parts, and of work that is counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import altair as alt
import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.factors import PART, TARGET, Factor, amount, roles
from savemark.report.figure import Figure, Panel
from savemark.report.marks import WIDTH, inline
from savemark.report.palette import level_scale
from savemark.report.text import counts
from savemark.stats import Spread, spread
from savemark.stats.cells import BYTES
from savemark.stats.cells import unit_of as of_phase

Rows = list[dict[str, Any]]
# Above this ratio of largest to smallest a linear axis hides the small ones.
LOG_FROM = 20
HEIGHT = 250


@dataclass(frozen=True, slots=True)
class Unit:
    """What the vertical axis shows: a column of the frame per second, divided by `size`."""

    name: str
    column: str
    size: float


GB = Unit("GB/s", "user_bytes", 1e9)
GIB = Unit("GiB/s", "user_bytes", 2.0**30)
KOPS = Unit("1000 op/s", "io_count", 1e3)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a panel: its name, and the rows of its trials."""

    name: str
    rows: pl.DataFrame


def unit_of(rows: pl.DataFrame) -> Unit:
    """The unit that people expect of these trials."""
    kind = of_phase(str(rows["workload"][0]), str(rows["phase"][0]))
    return GB if kind == BYTES else Unit(f"1000 {kind}", "io_count", 1e3)


def of_part(analysis: Analysis, part: str) -> pl.DataFrame:
    """The finished phases of one part (`""`: of all trials) that may be shown."""
    found = [analysis.rows(r.label, phase) for r in analysis.results for phase in analysis.phases]
    rows = pl.concat(found) if found else analysis.frame.clear()
    rows = rows.filter(pl.col("elapsed_ns") > 0).with_columns(pl.col("label").alias(TARGET))
    return rows.filter(pl.col(PART) == part) if part else rows


def varied(analysis: Analysis, rows: pl.DataFrame) -> list[Factor]:
    """The factors that have several levels among these rows, the target among them."""
    found = []
    for factor in analysis.factors:
        seen = rows[factor.name].cast(pl.String).drop_nulls().unique().to_list()
        levels = tuple(level for level in factor.levels if level in seen)
        if factor.name != PART and len(levels) > 1:
            found.append(Factor(factor.name, levels, factor.numeric))
    return found


def panels(analysis: Analysis, part: str) -> list[Panel]:
    """One panel per phase; of metadata one with all phases, for they are compared."""
    rows = of_part(analysis, part)
    if rows.is_empty():
        return []
    found = varied(analysis, rows)
    place = roles(found)
    if place.across is None:
        return []
    unit, together = unit_of(rows), str(rows["workload"][0]) == "metadata"
    # What is neither across nor a line of its own makes panels.
    apart = [f for f in found if f is not place.across and (together or f is not place.line)]
    drawn = []
    for title, own in _split(rows, apart, part):
        if together:
            drawn.append(Panel(title, chart(_lines(own, "phase", None), place.across, unit)))
            continue
        for (phase,), mine in own.group_by("phase", maintain_order=True):
            head = " · ".join(word for word in (title, str(phase)) if word)
            name = place.line.name if place.line else None
            lines = _lines(mine, name, place.line) if name else [Line("", mine)]
            if _values(lines, place.across, unit, median_with_interval)[0]:
                drawn.append(Panel(head, chart(lines, place.across, unit)))
    return drawn


def _split(
    rows: pl.DataFrame, apart: Sequence[Factor], part: str
) -> list[tuple[str, pl.DataFrame]]:
    if not apart:
        return [(part, rows)]
    found = []
    for key, own in rows.group_by([f.name for f in apart], maintain_order=True):
        levels = zip(apart, map(str, key), strict=True)
        words = [v if f.name == TARGET else f"{f.title} {f.shown(v)}" for f, v in levels]
        found.append((", ".join([part, *words] if part else words), own))
    return sorted(found, key=lambda each: each[0])


def _lines(rows: pl.DataFrame, column: str, factor: Factor | None) -> list[Line]:
    groups = {str(k[0]): own for k, own in rows.group_by(column, maintain_order=True)}
    names = [level for level in factor.levels if level in groups] if factor else list(groups)
    return [Line(factor.shown(name) if factor else name, groups[name]) for name in names]


def median_with_interval(samples: Sequence[float]) -> tuple[float, float, float, str]:
    """The corrected statistic: median, the ends of its interval or range, and what those are."""
    found: Spread = spread(samples)
    return found.median, found.low, found.high, found.kind


def mean_with_deviation(samples: Sequence[float]) -> tuple[float, float, float, str]:
    """The original study's statistic: mean ± one standard deviation."""
    mean = fmean(samples)
    off = stdev(samples) if len(samples) > 1 else 0.0
    return mean, max(mean - off, 0.0), mean + off, f"± {off:.3g}"


Statistic = Callable[[Sequence[float]], tuple[float, float, float, str]]


def chart(
    lines: Sequence[Line],
    across: Factor,
    unit: Unit,
    of: Statistic = median_with_interval,
    logarithmic: bool | None = None,
) -> Any:
    """Marks with their interval, every repeat a dot, a colour and shape per line."""
    middles, dots = _values(lines, across, unit, of)
    names = [line.name for line in lines]
    colour, shape = level_scale("", names)
    legend = alt.Legend(columns=min(len(names), 6)) if names != [""] else None
    x, wide = _x(across)
    highest = max((row["high"] for row in middles), default=0.0)
    lowest = min((row["low"] for row in middles if row["low"] > 0), default=highest)
    log = highest > LOG_FROM * lowest if logarithmic is None else logarithmic
    scale = (
        alt.Scale(type="log", domain=[lowest * 0.8, highest * 1.15], nice=False)
        if log and lowest > 0
        else alt.Scale(domain=[0, highest * 1.08], nice=True)
    )
    axis = alt.Axis(tickCount=6, format="~g")
    y = alt.Y("y:Q", scale=scale, axis=axis, title=f"{unit.name}{', log scale' if log else ''}")
    dye = alt.Color("line:N", scale=colour, sort=names, legend=legend)
    base = alt.Chart(inline(middles)).encode(x=x, y=y, color=dye)
    layers = []
    if across.numeric:
        layers.append(base.mark_line(strokeWidth=1.2, opacity=0.6, aria=False))
    layers += [
        base.mark_rule(strokeWidth=1.5, aria=False).encode(y="low:Q", y2="high:Q"),
        alt.Chart(inline(dots))
        .mark_circle(size=10, opacity=0.45, aria=False)
        .encode(x=x, y=y, color=dye),
        base.mark_point(filled=True, size=48, opacity=1).encode(
            shape=alt.Shape("line:N", scale=shape, sort=names, legend=legend),
            description="tip:N",
        ),
    ]
    return alt.layer(*layers).properties(width=wide, height=HEIGHT)


def _values(lines: Sequence[Line], across: Factor, unit: Unit, of: Statistic) -> tuple[Rows, Rows]:
    middles: Rows = []
    dots: Rows = []
    for line in lines:
        per_s = pl.col(unit.column) / pl.col("elapsed_ns") * 1e9 / unit.size
        rows = line.rows.with_columns(_speed=per_s)
        for (key,), own in rows.group_by(across.name, maintain_order=True):
            level = str(key)
            head = {"line": line.name, "x": across.shown(level), "n": amount(level) or 0.0}
            speeds = own["_speed"].to_list()
            middle, low, high, kind = of(speeds)
            tip = f"{line.name} {across.title} {head['x']}: {_rate_text(middle, unit)} ({kind})"
            middles.append(head | {"y": middle, "low": low, "high": high, "tip": tip.strip()})
            dots += [head | {"y": speed} for speed in speeds]
    middles.sort(key=lambda row: (row["line"], row["n"]))
    return middles, dots


def _rate_text(value: float, unit: Unit) -> str:
    return f"{value:.3g} {unit.name}" if unit.column == "user_bytes" else counts(value * 1e3)


def _x(across: Factor) -> tuple[alt.X, int]:
    """Numbers that span decades on a logarithmic axis; levels side by side otherwise."""
    numbers = [amount(level) or 0.0 for level in across.levels]
    if across.numeric and min(numbers) > 0 and max(numbers) >= 50 * min(numbers):
        axis = alt.Axis(values=numbers, format="~s", labelOverlap=True)
        domain = [min(numbers) * 0.8, max(numbers) * 1.25]
        scale = alt.Scale(type="log", domain=domain, nice=False)
        title = f"{across.title} (log scale)"
        return alt.X("n:Q", scale=scale, axis=axis, title=title), WIDTH
    shown = [across.shown(level) for level in across.levels]
    axis = alt.Axis(labelAngle=0, labelOverlap=True)
    return alt.X("x:O", sort=shown, title=across.title, axis=axis), WIDTH


def why_not(analysis: Analysis) -> str | None:
    """Seconds of one workload are compared in the other pictures."""
    if analysis.parts or analysis.counted:
        return None
    return "one workload that moves bytes: its times are drawn"


def draw(analysis: Analysis) -> list[Panel]:
    """The panels of each part, in the order of the study."""
    return [panel for part in analysis.parts or [""] for panel in panels(analysis, part)]


FIGURES = (
    Figure(
        name="rates",
        section="picture",
        title="Speed of every setting",
        caption="Big marks are medians, their bars the 95 % interval (below 6 repeats: the range), "
        "small dots the repeats; hover or focus a big mark for its numbers. GB/s are 10⁹ user "
        "bytes per second; op/s and IOPS are operations of all workers together. Lines join "
        "numbers only.",
        needs=("setting", "phase", "elapsed_ns"),
        draw=draw,
        order=10,
        why_not=why_not,
    ),
)
