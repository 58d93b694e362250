"""Throughput while a phase ran, of the fastest setting of each codec (or other factor)."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from savemark.records.timelines import timelines
from savemark.report.analysis import Analysis
from savemark.report.factors import Factor, roles
from savemark.report.figure import Figure, each_phase
from savemark.report.marks import WIDTH, inline
from savemark.report.palette import level_scale
from savemark.stats import TargetResult

MOST_POINTS = 150
MOST_LINES = 7
MOST_REPEATS = 20


def chart(analysis: Analysis, result: TargetResult, phase: str) -> Any | None:
    """A line per repeat."""
    values = _lines(analysis, result, phase)
    # One window is a dot, and no line goes through it.
    if len({row["s"] for row in values}) < 2:
        return None
    return _chart(values, _line(analysis)) if values else None


def _lines(analysis: Analysis, result: TargetResult, name: str) -> list[dict[str, Any]]:
    levels, line = analysis.levels(), _line(analysis)
    fastest: dict[str, str] = {}
    for cell in sorted(
        result.cells, key=lambda c: c.phases[name].seconds.median if name in c.phases else 0
    ):
        if name in cell.phases and name not in cell.blocked:
            level = levels[cell.label, cell.setting].get(line.name, "") if line else cell.setting
            fastest.setdefault(level, cell.setting)
    level_of = {setting: level for level, setting in list(fastest.items())[:MOST_LINES]}
    middle = {
        cell.setting: _middle(cell.phases[name].trials)
        for cell in result.cells
        if name in cell.phases and cell.setting in level_of
    }
    rows = analysis.rows(result.label, name).filter(pl.col("setting").is_in([*level_of]))
    rows = rows.filter(pl.col("repeat") < MOST_REPEATS)
    table = timelines(analysis.run).filter(pl.col("phase") == name)
    table = table.filter(pl.col("index").is_in(rows["index"].to_list()))
    series = {key: group for (key,), group in table.group_by("index", maintain_order=True)}
    values = []
    for row in rows.select("index", "setting", "repeat", "elapsed_ns").to_dicts():
        windows = series.get(row["index"])
        if windows is None:
            continue
        step = max(1, -(-len(windows) // MOST_POINTS))
        row["middle"] = middle.get(row["setting"]) == row["repeat"]
        row["level"] = level_of[row["setting"]]
        values += _points(row, windows, step)
    return values


def _line(analysis: Analysis) -> Factor | None:
    """The factor that lines tell apart; the target has a panel of its own."""
    return roles(analysis.own_factors).line or roles(analysis.own_factors).across


def _middle(trials: tuple[tuple[int, float], ...]) -> int:
    """The repeat whose time is the (lower) median."""
    return sorted(trials, key=lambda trial: trial[1])[(len(trials) - 1) // 2][0]


def _points(row: dict[str, Any], line: Any, step: int) -> list[dict[str, Any]]:
    """Whole windows only: the last one is cut off by the end of the phase and would look slow."""
    interval, counts = line["interval_ns"][0], line["bytes"].to_list()
    whole = int(row["elapsed_ns"] // interval)
    starts = range(0, max(min(whole, len(counts)) - step + 1, 0), step)
    head = {"level": row["level"], "repeat": row["repeat"]}
    head["strength"] = 0.95 if row["middle"] else 0.22
    return [
        head
        | {
            "s": (i + step / 2) * interval / 1e9,
            "gbs": sum(counts[i : i + step]) / (step * interval),
        }
        for i in starts
    ]


def _chart(values: list[dict[str, Any]], line: Factor | None) -> Any:
    seen = {row["level"] for row in values}
    known = [line.shown(level) for level in line.levels] if line else []
    levels = [level for level in known if level in seen] or sorted(seen)
    colour, _ = level_scale(line.name if line else "", levels)
    legend = alt.Legend(columns=6, title=line.title if line and line.numeric else None)
    longest = max(row["s"] for row in values)
    scale = (
        alt.Scale(type="symlog", constant=max(longest / 40, 0.1))
        if longest > 5
        else alt.Scale(zero=True)
    )
    chart = (
        alt.Chart(inline(values))
        .mark_line(strokeWidth=1.4)
        .encode(
            x=alt.X(
                "s:Q",
                title="seconds since the start of the phase",
                scale=scale,
                axis=alt.Axis(tickCount=6, format="~g"),
            ),
            y=alt.Y("gbs:Q", title="throughput, GB/s", axis=alt.Axis(tickCount=5)),
            color=alt.Color("level:N", scale=colour, sort=levels, legend=legend),
            opacity=alt.Opacity("strength:Q", scale=None, legend=None),
            detail="repeat:N",
        )
    )
    return chart.properties(width=WIDTH, height=220)


FIGURES = (
    Figure(
        name="timeline",
        section="distributions",
        title="Throughput over time",
        caption="The fastest setting of each codec (or of what else the colours tell): the middle "
        "repeat strong, the others faint. A level line is what a steady device looks like; a step "
        "down is a full cache, an exhausted burst credit or another user. Phases shorter than two "
        "intervals have no line.",
        needs=("phase", "elapsed_ns"),
        draw=each_phase(chart),
        order=45,
    ),
)
