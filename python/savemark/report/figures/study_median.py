"""Per storage: the original study’s bars of medians."""

from __future__ import annotations

from savemark.report.figure import Figure
from savemark.report.figures._cells import grid
from savemark.report.study import applies
from savemark.stats import median

FIGURE = Figure(
    name="study_median",
    section="study",
    title="Legacy: median times per storage",
    caption="The original study’s figure: medians, with one standard deviation of the repeats to "
    "each side. With few and skewed repeats a standard deviation says little about the "
    "median: prefer the figure with intervals. A codec without a bar has no data there; "
    "that is not a zero.",
    needs=("codec", "streams", "phase", "elapsed_ns"),
    draw=grid(median, deviation=True),
    order=72,
    applies=applies,
)
