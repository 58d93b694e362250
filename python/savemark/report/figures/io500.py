"""The twelve lines of IO500, each run a mark: where the score comes from."""

from __future__ import annotations

from typing import Any

import altair as alt

from savemark.records.io500 import PHASES
from savemark.report.analysis import Analysis
from savemark.report.figure import Figure, Panel
from savemark.report.io500 import Scored, scored
from savemark.report.marks import WIDTH, inline, names_axis
from savemark.report.palette import level_scale
from savemark.report.text import four

UNITS = {"Bandwidth": "GiB/s", "Rate": "kIOPS"}


def why_not(analysis: Analysis) -> str | None:
    """Why there is nothing to draw, or None."""
    return None if scored(analysis) else "it belongs to IO500"


def draw(analysis: Analysis) -> list[Panel]:
    """A panel for the phases of IOR and one for the others, which have another unit."""
    found = scored(analysis)
    return [
        Panel(f"{title}, {unit}", _chart(analysis, found, unit))
        for title, unit in UNITS.items()
        if any(_marks(analysis, each, unit) for each in found)
    ]


def _chart(analysis: Analysis, found: list[Scored], unit: str) -> alt.Chart:
    marks = [mark for each in found for mark in _marks(analysis, each, unit)]
    groups = list(dict.fromkeys(each.group for each in found))
    colour, shape = level_scale("", groups)
    legend = alt.Legend(title=None, orient="top", columns=4) if len(groups) > 1 else None
    order = list(dict.fromkeys(mark["phase"] for mark in marks))
    chart: alt.Chart = (
        alt.Chart(inline(marks))
        .mark_point(filled=True, size=70, opacity=0.85)
        .encode(
            x=alt.X(
                "rate:Q",
                title=f"{unit} (log scale; more is better)",
                scale=alt.Scale(type="log", nice=True),
                axis=alt.Axis(format="~g", grid=True, tickCount=6),
            ),
            y=alt.Y("phase:N", sort=order, axis=names_axis(None)),
            color=alt.Color("group:N", scale=colour, sort=groups, legend=legend),
            shape=alt.Shape("group:N", scale=shape, sort=groups, legend=legend),
            description="tip:N",
        )
        .properties(width=WIDTH - 60, height=alt.Step(26))
    )
    return chart


def _marks(analysis: Analysis, each: Scored, unit: str) -> list[dict[str, Any]]:
    """What may be shown of one run in this unit."""
    marks = []
    for name, line in each.shown(analysis).lines.items():
        if name.startswith("ior") == (unit == "GiB/s") and line.rate > 0:
            said = " [INVALID]" if line.reasons else ""
            tip = f"{each.name}: {name} {four(line.rate)} {unit}, {line.seconds:.1f} s{said}"
            marks.append({"phase": name, "rate": line.rate, "group": each.group, "tip": tip})
    return sorted(marks, key=lambda mark: list(PHASES).index(mark["phase"]))


FIGURES = (
    Figure(
        name="io500",
        section="picture",
        title="The twelve phases of IO500",
        caption="Each mark is one run; hover or tap it for its number. The score is the root of "
        "the geometric means of both panels’ lines, so twice as much in one line of the left "
        "counts as much as four times as much in one of the right.",
        needs=("phase", "elapsed_ns"),
        draw=draw,
        order=5,
        why_not=why_not,
    ),
)
