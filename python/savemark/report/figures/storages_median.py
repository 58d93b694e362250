"""Across storages: the original study’s stacked bars of medians."""

from __future__ import annotations

from savemark.report.figure import Figure
from savemark.report.figures._cells import across
from savemark.report.study import several
from savemark.stats import median

FIGURE = Figure(
    name="storages_median",
    section="study",
    title="Legacy: storages beside each other, median times",
    caption="The original study’s figure: as the one before, with medians. The sum of two medians "
    "is not the median of the sum. A bar that is not there has no data.",
    needs=("codec", "streams", "phase", "elapsed_ns"),
    draw=across(median),
    order=74,
    applies=several,
)
