"""The fsync study: I/O time by version, the mean over all numbers of threads."""

from __future__ import annotations

from typing import Any

import altair as alt

from savemark.report.analysis import Analysis
from savemark.report.durability import NEEDS, applies, means, points, versions
from savemark.report.figure import Figure, Panel
from savemark.report.figures._durability import colour
from savemark.report.marks import WIDTH, inline


def draw(analysis: Analysis) -> list[Panel]:
    """A stacked bar per version."""
    found = points(analysis)
    parts = {"fsync": means(found, lambda p: p.fsync)}
    parts["other I/O"] = means(found, lambda p: p.other_io)
    values: list[dict[str, Any]] = [
        {"version": version, "part": part, "y": seconds, "place": place}
        | {"tip": f"{version}: {part} {seconds:.6g} thread-seconds"}
        for place, (part, times) in enumerate(parts.items())
        for version, seconds in times.items()
    ]
    chart = (
        alt.Chart(inline(values))
        .mark_bar(size=60)
        .encode(
            x=alt.X("version:N", sort=versions(found), title=None, axis=alt.Axis(labelAngle=0)),
            y=alt.Y("y:Q", title="thread-seconds, mean over numbers of threads"),
            color=colour(list(parts)),
            order=alt.Order("place:Q"),
            description="tip:N",
        )
    )
    return [Panel("I/O time", chart.properties(width=WIDTH, height=240))]


FIGURE = Figure(
    name="iotime",
    section="legacy",
    title="Legacy: duration of I/O operations",
    caption="The original study’s figure: fsync and other I/O in thread-seconds, the mean over all "
    "numbers of threads. The versions ran different numbers of iterations, so the heights of two "
    "bars may not be compared; the shares within one may.",
    needs=NEEDS,
    draw=draw,
    order=83,
    applies=applies,
)
