"""Every trial against its place in the run: drift shows as a slope (HC-15, HC-27)."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.figure import Figure, each_phase
from savemark.report.marks import MOST_DOTS, WIDTH, inline
from savemark.report.palette import light
from savemark.report.text import seconds
from savemark.stats import TargetResult

# So many trials, the farthest from 1, say who they are.
MOST_NAMED = 150
SHOWN = ("position", "setting", "repeat", "elapsed_ns")


def chart(analysis: Analysis, result: TargetResult, phase: str) -> Any | None:
    """A mark per trial, relative to its own setting."""
    values = _values(analysis.rows(result.label, phase))
    return _chart(values) if values else None


def _values(rows: pl.DataFrame) -> list[dict[str, Any]]:
    rows = rows.with_columns(
        relative=pl.col("elapsed_ns") / pl.col("elapsed_ns").median().over("setting")
    )
    # Of a hundred thousand trials some thousand show a drift as well, and those that stand out.
    step = -(-len(rows) // MOST_DOTS)
    # Thousands of trials: those that stand out say who they are, the others are dots.
    far = rows.select((pl.col("relative") - 1).abs().sort(descending=True)).to_series()
    named = pl.lit(value=True)
    if len(far) > MOST_NAMED:
        named = (pl.col("relative") - 1).abs() > far[MOST_NAMED]
    rows = rows.with_columns(named=named)
    return [
        {
            "place": row["position"] + 1,
            "relative": row["relative"],
            "tip": f"trial {row['position'] + 1}: {row['setting']}, repeat {row['repeat'] + 1}, "
            f"{seconds(row['elapsed_ns'] / 1e9)} s, {row['relative']:.2f} of its median"
            if row["named"]
            else None,
        }
        for row in rows.select(*SHOWN, "relative", "named").to_dicts()
        if row["position"] % step == 0 or row["named"]
    ]


def _chart(values: list[dict[str, Any]]) -> Any:
    far = max(max(abs(row["relative"] - 1) for row in values) * 1.1, 0.05)
    y = alt.Y(
        "relative:Q",
        title="time / median of its setting",
        scale=alt.Scale(domain=[max(0, 1 - far), 1 + far], nice=False),
    )
    x = alt.X("place:Q", title="place in the run (1 = first)")
    look: dict[str, Any] = {"filled": True, "size": 26, "opacity": 0.75, "color": light("first")}
    told = [row for row in values if row["tip"]]
    quiet = alt.Chart(inline([row for row in values if not row["tip"]])).mark_point(
        aria=False, **(look | {"size": 9, "opacity": 0.4})
    )
    dots = alt.Chart(inline(told)).mark_point(**look).encode(x=x, y=y, description="tip:N")
    one = (
        alt.Chart(inline([{"relative": 1}]))
        .mark_rule(color=light("quiet"), strokeWidth=1, aria=False)
        .encode(y=y)
    )
    return (one + quiet.encode(x=x, y=y) + dots).properties(width=WIDTH, height=180)


FIGURES = (
    Figure(
        name="order",
        section="coverage",
        title="In the order of the run",
        caption="Each mark is one trial, divided by the median of its own setting. Without drift "
        "the marks scatter evenly around 1 from left to right; a slope or a step means that the "
        "machine changed while it was measured.",
        needs=("position", "setting", "phase", "elapsed_ns"),
        draw=each_phase(chart),
        order=60,
    ),
)
