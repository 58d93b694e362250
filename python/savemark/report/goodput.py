"""Goodput against the interval, with every interval that has a name."""

from __future__ import annotations

from typing import Any

import altair as alt

from savemark.advice.plan import Job, asynchronous, choices
from savemark.report.figure import Panel
from savemark.report.palette import light
from savemark.report.render import svg

POINTS = 120
SIMULATED = 7
SIZE = (560, 320)
LINES = ("saves block the work", "saves beside the work", "simulated")


def drawing(job: Job) -> str:
    """Return the plot as SVG, on white."""
    return svg([Panel("Useful share of the time against the interval", chart(job))])


def chart(job: Job) -> Any:
    """Return the plot: two curves, simulated points on the exact one, and the intervals."""
    best, behind = choices(job)[0], asynchronous(job)
    low, high = min(best.tau, behind.tau) / 12, max(best.tau, behind.tau) * 12
    taus = [low * (high / low) ** (i / (POINTS - 1)) for i in range(POINTS)]
    rows = [{"tau": t / 60, "share": job.goodput(t), "line": LINES[0]} for t in taus]
    rows += [
        {"tau": t / 60, "share": job.goodput_asynchronous(t), "line": LINES[1]}
        for t in sorted({*taus, job.save_s})
        if t >= job.save_s  # the next cannot start before the last is durable
    ]
    dots = [
        {"tau": t / 60, "share": share, "line": LINES[2]}
        for t in (best.tau * 4.0 ** (i - SIMULATED // 2) for i in range(SIMULATED))
        if low <= t <= high and (share := job.simulated(t)) is not None
    ]
    named = [*choices(job), behind]
    marks = [{"tau": c.tau / 60, "share": c.goodput, "name": c.name} for c in _apart(named)]
    x = alt.X(
        "tau:Q",
        title="minutes of work between two saves (log scale)",
        scale=alt.Scale(type="log", domain=[low / 60, high / 60], nice=False),
        axis=alt.Axis(tickCount=6, format="~g"),
    )
    y = alt.Y("share:Q", title="useful share of the time", scale=alt.Scale(domain=[0, 1]))
    y = y.axis(alt.Axis(format="%"))
    colours = [light(name) for name in ("first", "second", "text")]
    colour = alt.Color("line:N", scale=alt.Scale(domain=list(LINES), range=colours))
    lines = alt.Chart(alt.InlineData(values=rows)).mark_line(strokeWidth=2)
    points = alt.Chart(alt.InlineData(values=dots)).mark_point(size=40, filled=True)
    rules = alt.Chart(alt.InlineData(values=marks)).mark_rule(
        strokeDash=[5, 4], color=light("limit")
    )
    words = alt.Chart(alt.InlineData(values=marks)).mark_text(
        align="left", baseline="bottom", angle=270, dx=4, dy=-3, fontSize=12, color=light("limit")
    )
    layers = alt.layer(
        lines.encode(x=x, y=y, color=colour),
        points.encode(x=x, y=y, color=colour),
        rules.encode(x=x),
        words.encode(x=x, y=alt.value(SIZE[1]), text="name:N"),
    )
    return layers.properties(width=SIZE[0], height=SIZE[1])


def _apart(named: list[Any]) -> list[Any]:
    """Leave out an interval that would be drawn on top of one before it."""
    kept: list[Any] = []
    for each in named:
        if all(abs(each.tau / other.tau - 1) > 0.25 for other in kept):
            kept.append(each)
    return kept
