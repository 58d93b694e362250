"""What the figures of the fsync study share: lines against threads, and bars of seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import altair as alt

from savemark.report.analysis import Analysis
from savemark.report.durability import Point, points, versions
from savemark.report.figure import Panel
from savemark.report.marks import WIDTH, inline
from savemark.report.palette import level_scale, light

Values = list[dict[str, Any]]
HEIGHT = 240
# Each part keeps its colour in all figures of the study.
PARTS = {"fsync": "second", "other I/O": "first", "total runtime": "third"}


def lines(of: Callable[[Point], float], title: str) -> Callable[[Analysis], list[Panel]]:
    """A figure of one panel: `of` against threads, a line per version."""

    def draw(analysis: Analysis) -> list[Panel]:
        found = points(analysis)
        values = [
            {"version": p.version, "threads": p.threads, "y": of(p)}
            | {"tip": f"{p.version}, {p.threads} threads: {of(p):.6g} {title}"}
            for p in found
        ]
        names = versions(found)
        colour, shape = level_scale("version", names)
        base = _against_threads(values, title).encode(
            color=alt.Color("version:N", scale=colour, sort=names)
        )
        marks = base.mark_point(filled=True, size=36, opacity=1).encode(
            shape=alt.Shape("version:N", scale=shape, sort=names), description="tip:N"
        )
        line = base.mark_line(strokeWidth=1.3, opacity=0.7, aria=False)
        return [Panel(title, (line + marks).properties(width=WIDTH + 60, height=HEIGHT))]

    return draw


def runtime(analysis: Analysis) -> list[Panel]:
    """A panel per version: its run time against threads."""
    found = points(analysis)
    panels = []
    for version in versions(found):
        values = [
            {"threads": p.threads, "y": p.wallclock}
            | {"tip": f"{version}, {p.threads} threads: {p.wallclock:.6g} s"}
            for p in found
            if p.version == version
        ]
        base = _against_threads(values, "runtime, seconds")
        marks = base.mark_point(filled=True, size=36, opacity=1, color=light("first"))
        line = base.mark_line(strokeWidth=1.3, color=light("first"), aria=False)
        both = line + marks.encode(description="tip:N")
        panels.append(Panel(version, both.properties(width=WIDTH - 60, height=200)))
    return panels


def grouped(analysis: Analysis) -> list[Panel]:
    """A panel per version: fsync, other I/O and run time beside each other."""
    found = points(analysis)
    panels = []
    for version in versions(found):
        values: Values = []
        for p in found:
            if p.version != version:
                continue
            times = (p.fsync, p.other_io, p.wallclock)
            for part, seconds in zip(PARTS, times, strict=True):
                tip = f"{version}, {p.threads} threads: {part} {seconds:.6g} s"
                values.append({"threads": p.threads, "part": part, "y": seconds, "tip": tip})
        base = _against_threads(values, "seconds (of threads, and of the clock)")
        bars = base.mark_bar().encode(
            xOffset=alt.XOffset("part:N", sort=list(PARTS)),
            color=colour(list(PARTS)),
            description="tip:N",
        )
        panels.append(Panel(version, bars.properties(width=WIDTH, height=HEIGHT)))
    return panels


def colour(parts: Sequence[str]) -> alt.Color:
    """The colour of the parts of a time."""
    scale = alt.Scale(domain=list(parts), range=[light(PARTS[part]) for part in parts])
    return alt.Color("part:N", scale=scale, sort=list(parts))


def _against_threads(values: Values, title: str) -> Any:
    return alt.Chart(inline(values)).encode(
        x=alt.X("threads:O", title="threads", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("y:Q", title=title, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=6)),
    )
