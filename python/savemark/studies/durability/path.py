"""The fsync study: where the wall time of an iteration goes, on the path that all wait for."""

from __future__ import annotations

from typing import Any

import altair as alt

from savemark.report.analysis import Analysis
from savemark.report.figure import Figure, Panel
from savemark.report.marks import WIDTH, inline
from savemark.report.palette import light
from savemark.studies.durability.policies import NEEDS, PARTS, Setting, settings, why_not

NAMES = {
    "compute": "computing",
    "write": "writing",
    "sync": "syncing",
    "wait": "waking each other",
    "drain": "the last save",
}
COLOURS = {
    "compute": "third",
    "write": "first",
    "sync": "second",
    "wait": "quiet",
    "drain": "fourth",
}

LEGEND = alt.Legend(columns=3)


def draw(analysis: Analysis) -> list[Panel]:
    """A panel per policy and target."""
    panels = []
    for result in analysis.results:
        found = settings(analysis, result.label)
        where = result.label if len(analysis.results) > 1 else ""
        for policy in dict.fromkeys(one.policy for one in found):
            mine = [one for one in found if one.policy == policy]
            panels.append(Panel(" · ".join(part for part in (where, policy) if part), _panel(mine)))
    return panels


def _panel(found: list[Setting]) -> Any:
    values: list[dict[str, Any]] = []
    for one in found:
        for place, part in enumerate(PARTS):
            ms = one.per_iteration(part) * 1e3
            tip = f"{one.policy}, {one.threads} threads: {NAMES[part]} {ms:.3g} ms"
            values.append(
                {"threads": one.threads, "part": NAMES[part], "ms": ms, "place": place, "tip": tip}
            )
    scale = alt.Scale(domain=list(NAMES.values()), range=[light(COLOURS[part]) for part in NAMES])
    return (
        alt.Chart(inline(values))
        .mark_bar()
        .encode(
            x=alt.X("threads:O", title="threads", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("ms:Q", title="ms of wall time per iteration"),
            color=alt.Color("part:N", scale=scale, sort=list(NAMES.values()), legend=LEGEND),
            order=alt.Order("place:Q"),
            description="tip:N",
        )
        .properties(width=WIDTH - 120, height=160)
    )


FIGURES = (
    Figure(
        name="policies_path",
        section="policies",
        title="The critical path of an iteration",
        caption="Wall time per iteration, the mean of the repeats. From one barrier to the next it "
        "is the time of the thread that came last, which all others waited for; what is left is "
        "the time until all were awake again. These are seconds of a clock and add up to the run "
        "time; what the threads spent together is another figure. Each policy has a scale of its "
        "own.",
        needs=NEEDS,
        draw=draw,
        order=26,
        columns=3,
        why_not=why_not,
    ),
)
