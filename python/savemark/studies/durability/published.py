"""The figures of the original: lines against threads, and bars of seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import altair as alt

from savemark.report.analysis import Analysis
from savemark.report.figure import Figure, Panel
from savemark.report.marks import WIDTH, inline
from savemark.report.palette import level_scale, light
from savemark.studies.durability.legacy import NEEDS, Point, means, points, versions, why_not

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


FIGURES = (
    Figure(
        name="relative_time",
        section="legacy",
        title="Legacy: runtime per iteration",
        caption="The original study’s figure: wall-clock time / iterations. Computing is in it; "
        "one run per mark.",
        needs=NEEDS,
        draw=lines(lambda p: p.relative_time, "seconds per iteration"),
        order=80,
        why_not=why_not,
    ),
    Figure(
        name="bandwidth",
        section="legacy",
        title="Legacy: average throughput",
        caption="The original study’s figure: bytes written / wall-clock time, computing included. "
        "Without a sync the bytes are in the page cache, not on the disk.",
        needs=NEEDS,
        draw=lines(lambda p: p.bandwidth, "MiB/s"),
        order=81,
        why_not=why_not,
    ),
    Figure(
        name="iops",
        section="legacy",
        title="Legacy: average I/O operations",
        caption="The original study’s figure: writes / wall-clock time, computing included. All "
        "writes are of one size, so it has the shape of the throughput.",
        needs=NEEDS,
        draw=lines(lambda p: p.iops, "I/Os per second"),
        order=82,
        why_not=why_not,
    ),
    Figure(
        name="iotime",
        section="legacy",
        title="Legacy: duration of I/O operations",
        caption="The original study’s figure: fsync and other I/O in thread-seconds, the mean over "
        "all numbers of threads. The versions ran different numbers of iterations, so the heights "
        "of two bars may not be compared; the shares within one may.",
        needs=NEEDS,
        draw=draw,
        order=83,
        why_not=why_not,
    ),
    Figure(
        name="time",
        section="legacy",
        title="Legacy: composition per number of threads",
        caption="The original study’s figures, one per version. The bars are not of one kind: "
        "fsync and other I/O are summed over the threads, the run time is of the clock, so the "
        "first two may be higher than the last (HC-16).",
        needs=NEEDS,
        draw=grouped,
        order=84,
        why_not=why_not,
        apart=True,
    ),
    Figure(
        name="runtime",
        section="legacy",
        title="Legacy: runtime",
        caption="The original study’s figures, one per version: wall-clock time. The versions ran "
        "different numbers of iterations, so compare the shapes only.",
        needs=NEEDS,
        draw=runtime,
        order=85,
        why_not=why_not,
        apart=True,
    ),
)
