"""Per storage: the original study’s bars of minima."""

from __future__ import annotations

from savemark.report.figure import Figure
from savemark.report.figures._cells import grid
from savemark.report.study import applies

FIGURE = Figure(
    name="study_min",
    section="study",
    title="Legacy: minimum times per storage",
    caption="The original study’s figure: the smallest time of all repeats. Bars of one codec "
    "stand beside each other: checkpoint, restore, and the smallest sum of both in one "
    "run. A codec without a bar has no data there; that is not a zero. The best of "
    "several repeats is luck: prefer the figure with intervals.",
    needs=("codec", "streams", "phase", "elapsed_ns"),
    draw=grid(min, deviation=False),
    order=71,
    applies=applies,
)
