"""The fsync study: lost work against overhead, by the interval between saves."""

from __future__ import annotations

from typing import Any

import altair as alt

from savemark.report.analysis import Analysis
from savemark.report.figure import Figure, Panel, heading
from savemark.report.interval import MTBF_S, STATE_BYTES
from savemark.report.marks import WIDTH, inline
from savemark.report.palette import level_scale
from savemark.studies.durability.policies import (
    NEEDS,
    Setting,
    best,
    every,
    lost,
    settings,
    soonest,
    why_not,
)

POINTS = 60


def draw(analysis: Analysis) -> list[Panel]:
    """A panel per target: a curve per policy that promises something."""
    panels = []
    for result in analysis.results:
        found = [one for one in best(settings(analysis, result.label)) if one.contract != "none"]
        if found:
            where = result.label if len(analysis.results) > 1 else ""
            panels.append(Panel(heading("lost time", where), _panel(found)))
    return panels


def _panel(found: list[Setting]) -> Any:
    low = min(every(one) for one in found) / 10
    high = max(every(one) for one in found) * 10
    taus = [low * (high / low) ** (i / (POINTS - 1)) for i in range(POINTS)]
    rows = [
        {"policy": one.policy, "tau": tau / 60, "lost": lost(one, tau)}
        for one in found
        for tau in taus
        if tau >= soonest(one)
    ]
    dots = []
    for one in found:
        tau = every(one)
        tip = f"{one.policy}: every {tau / 60:.3g} min, {lost(one, tau):.1%} lost"
        dots.append({"policy": one.policy, "tau": tau / 60, "lost": lost(one, tau), "tip": tip})
    names = [one.policy for one in found]
    colour, shape = level_scale("policy", names)
    scale = alt.Scale(type="log", domain=[low / 60, high / 60], nice=False)
    x = alt.X("tau:Q", title="minutes of work between two saves (log scale)", scale=scale)
    x = x.axis(alt.Axis(tickCount=6, format="~g"))
    y = alt.Y("lost:Q", title="share of the time that is lost", scale=alt.Scale(domain=[0, 1]))
    y = y.axis(alt.Axis(format="%"))
    hue = alt.Color("policy:N", scale=colour, sort=names, legend=alt.Legend(columns=4))
    line = alt.Chart(inline(rows)).mark_line(strokeWidth=1.5, aria=False)
    marks = alt.Chart(inline(dots)).mark_point(filled=True, size=50, opacity=1)
    marks = marks.encode(shape=alt.Shape("policy:N", scale=shape, sort=names), description="tip:N")
    both = line.encode(x=x, y=y, color=hue) + marks.encode(x=x, y=y, color=hue)
    return both.properties(width=WIDTH + 60, height=280)


FIGURES = (
    Figure(
        name="policies_lost",
        section="policies",
        title="Lost work against overhead",
        caption=f"A job of {STATE_BYTES / 1e9:g} GB of state that fails every {MTBF_S / 3600:g} "
        "hours, saving at the measured speed: with short intervals the saves cost the time, with "
        "long ones the work that is done again. The mark is the interval with the least loss. A "
        "policy that can be torn loses more than its curve says: a failure in the middle of a save "
        "takes the only checkpoint with it (the table says how often). Policies that promise "
        "nothing have no curve.",
        needs=NEEDS,
        draw=draw,
        order=29,
        why_not=why_not,
    ),
)
