"""The fsync study: what reached the device for each save."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import altair as alt

from savemark.report.analysis import Analysis
from savemark.report.figure import Figure, Panel, heading
from savemark.report.marks import WIDTH, inline, names_axis, seconds_scale, ticks
from savemark.report.palette import light
from savemark.stats import median
from savemark.studies.durability.policies import NEEDS, Setting, best, settings, why_not

LEAST = 1e-4  # a logarithmic axis has no zero
Value = Callable[[Setting], float]


def _written(one: Setting) -> float:
    rows = one.rows
    return median((rows["device_written_bytes"] / rows["user_bytes"]).to_list())


def _flushes(one: Setting) -> float:
    rows = one.rows
    return median((rows["device_flushes"] / rows["iterations"]).to_list())


VALUES: dict[str, tuple[Value, str]] = {
    "bytes": (_written, "bytes written per user byte"),
    "flushes": (_flushes, "flushes per iteration"),
}


def draw(analysis: Analysis) -> list[Panel]:
    """Two panels per target."""
    panels = []
    for result in analysis.results:
        found = [
            one
            for one in best(settings(analysis, result.label))
            if not one.rows["device_flushes"].null_count()
        ]
        where = result.label if len(analysis.results) > 1 else ""
        for name, (of, title) in VALUES.items():
            if found:
                panels.append(Panel(heading(name, where), _panel(found, of, title)))
    return panels


def _panel(found: list[Setting], of: Value, title: str) -> Any:
    values = [
        {"setting": f"{one.policy} · {one.threads}", "x": max(of(one), LEAST)}
        | {"word": f"{of(one):.3g}"}
        | {"tip": f"{one.policy}, {one.threads} threads: {of(one):.3g} {title}"}
        for one in found
    ]
    order = [str(row["setting"]) for row in values]
    scale, how = seconds_scale([max(of(one), LEAST) for one in found])
    base = alt.Chart(inline(values)).encode(
        y=alt.Y("setting:N", sort=order, axis=names_axis("policy · threads")),
        x=alt.X("x:Q", title=f"{title} ({how})", scale=scale, axis=ticks(scale)),
    )
    marks = base.mark_point(filled=True, size=44, opacity=1, color=light("first"))
    words = base.mark_text(align="left", dx=8, color=light("quiet"), aria=False)
    both = marks.encode(description="tip:N") + words.encode(text="word:N")
    return both.properties(width=WIDTH - 160, height=alt.Step(17))


FIGURES = (
    Figure(
        name="policies_device",
        section="policies",
        title="What reaches the device",
        caption="Medians, of each policy at the number of threads with which most becomes durable, "
        "from the kernel’s counters of the whole disk. More than one byte per byte is the journal "
        "and blocks written again; less is what memory kept. A flush empties the disk’s own cache: "
        "it is what durability costs.",
        needs=(*NEEDS, "device_flushes"),
        draw=draw,
        order=28,
        why_not=why_not,
    ),
)
