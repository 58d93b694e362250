"""Where the wall time of a phase goes."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.figure import Figure, each_phase
from savemark.report.marks import fastest, shares
from savemark.report.palette import light
from savemark.report.text import seconds
from savemark.stats import TargetResult

# Known stages keep their colour in every run; others take what is left.
COLOURS = {
    "transfer": "first",
    "flush": "second",
    "commit": "fourth",
    "manifest": "third",
    "open": "third",
}
COLOURS |= {"fetch": "first", "freeze": "limit", "verify": "fourth"}
SPARE = ("limit", "quiet", "fourth", "third")


def why_not(analysis: Analysis) -> str | None:
    """A bar of one part says nothing."""
    names = [c for c in analysis.frame.columns if c.startswith("stage_")]
    used = [c for c in names if int(analysis.frame[c].sum()) > 0]
    return "the phases have one stage only" if names and len(used) < 2 else None


def chart(analysis: Analysis, result: TargetResult, phase: str) -> Any | None:
    """A bar per setting, fastest on top; the legend names the stages of this phase alone."""
    rows = analysis.rows(result.label, phase)
    columns = [c for c in rows.columns if c.startswith("stage_") and int(rows[c].sum()) > 0]
    # Other tools, and phases that only touch names, have none.
    rows, _ = fastest(analysis.short(rows.filter(pl.sum_horizontal(columns or [pl.lit(0)]) > 0)))
    names = [column.removeprefix("stage_").removesuffix("_ns") for column in columns]
    values = _values(rows, dict(zip(names, columns, strict=True)))
    if not values:
        return None
    scale = alt.Scale(domain=names, range=_paint(names))
    return shares(values, analysis.short_title, "share of the wall time", ("stage", scale))


def _paint(names: list[str]) -> list[str]:
    """Return a colour of its own for each stage."""
    known = {COLOURS[name] for name in names if name in COLOURS}
    spare = iter([colour for colour in SPARE if colour not in known] + list(SPARE))
    return [light(COLOURS[name] if name in COLOURS else next(spare)) for name in names]


def _values(rows: pl.DataFrame, columns: dict[str, str]) -> list[dict[str, Any]]:
    # The mean, for the means of the stages add up to the mean of the whole; medians would not.
    means = rows.group_by("setting", maintain_order=True).agg(
        pl.col(list(columns.values())).mean(), pl.col("elapsed_ns").mean()
    )
    values = []
    for row in means.sort("elapsed_ns").to_dicts():
        whole = row["elapsed_ns"]
        for place, (stage, column) in enumerate(columns.items()):
            share = (row[column] or 0) / whole
            tip = f"{row['setting']}: {stage} {seconds(share * whole / 1e9)} s, {share:.1%}"
            values.append(
                {"setting": row["setting"], "stage": stage, "share": share, "place": place}
                | {"whole": f"{seconds(whole / 1e9)} s", "tip": tip}
            )
    return values


FIGURES = (
    Figure(
        name="stages",
        section="where",
        title="Wall time by stage",
        caption="A bar is one setting; its parts follow each other on the clock and add up to its "
        "time (mean of the repeats, at the end of the bar), fastest on top. Work that overlaps "
        "(encoding while writing) is one stage; the next figure takes it apart.",
        needs=("setting", "phase", "elapsed_ns", "stage_transfer_ns"),
        draw=each_phase(chart),
        order=20,
        why_not=why_not,
    ),
)
