"""What matters: the share of the variation of time that each factor explains."""

from __future__ import annotations

from typing import Any

import altair as alt

from savemark.report.analysis import Analysis
from savemark.report.effects import effects
from savemark.report.figure import Figure, Panel, heading
from savemark.report.figures._effects import why_not
from savemark.report.marks import WIDTH, inline, names_axis
from savemark.report.palette import light

COLOURS = {"factor": "first", "interaction of two": "second", "three and more": "limit"}
COLOURS |= {"repeats (noise)": "third"}


def draw(analysis: Analysis) -> list[Panel]:
    """One panel per phase."""
    panels = []
    for phase in analysis.phases:
        found = effects(analysis.measured(phase), analysis.factors)
        if found is None:
            continue
        titles = {factor.name: factor.title for factor in analysis.factors}
        parts = [(titles[name], "factor", share) for name, share in found.main.items()]
        parts += [
            (f"{titles[a]} × {titles[b]}", "interaction of two", share)
            for (a, b), share in found.pairs.items()
        ]
        if len(titles) > 2:
            parts.append(("three and more together", "three and more", found.higher))
        if found.repeated:
            parts.append(("repeats of one setting", "repeats (noise)", found.repeats))
        panels.append(Panel(heading(phase), _chart(parts)))
    return panels


def _chart(parts: list[tuple[str, str, float]]) -> Any:
    values: list[dict[str, Any]] = [
        {"part": name, "kind": kind, "share": share, "text": f"{share:.1%}"}
        | {"tip": f"{name} explains {share:.1%} of the variation of time"}
        for name, kind, share in sorted(parts, key=lambda part: -part[2])
    ]
    kinds = [kind for kind in COLOURS if any(row["kind"] == kind for row in values)]
    colour = alt.Scale(domain=kinds, range=[light(COLOURS[kind]) for kind in kinds])
    base = alt.Chart(inline(values)).encode(
        y=alt.Y("part:N", sort=[row["part"] for row in values], axis=names_axis(None)),
        x=alt.X(
            "share:Q",
            title="share of the variation of log time",
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format="%", tickCount=5),
        ),
    )
    bars = base.mark_bar().encode(
        color=alt.Color("kind:N", scale=colour, sort=kinds), description="tip:N"
    )
    words = base.mark_text(align="left", dx=5, color=light("quiet"), aria=False).encode(
        text="text:N"
    )
    return (bars + words).properties(width=WIDTH - 80, height=alt.Step(19))


FIGURES = (
    Figure(
        name="effects",
        section="effects",
        title="What matters",
        caption="How much of the variation of the times each factor explains by itself, how much "
        "needs two factors to be known together, and how much is noise between repeats. A factor "
        "without a visible bar may be set as you like; a large interaction means that the best "
        "level of one factor depends on the other.",
        needs=("setting", "phase", "elapsed_ns"),
        draw=draw,
        order=50,
        why_not=why_not,
    ),
)
