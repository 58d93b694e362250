"""Across storages: medians, intervals and ties, common cells only."""

from __future__ import annotations

from savemark.report.figure import Figure
from savemark.report.figures._cells import across_intervals
from savemark.report.study import several

FIGURE = Figure(
    name="storages_intervals",
    section="study",
    title="Storages beside each other: medians and intervals",
    caption="A panel per codec; for each number of streams the storages side by side: the median "
    "of save + restore, and its 95 % interval (with fewer than 6 repeats the range). "
    "Filled marks are storages that the repeats cannot tell from the fastest one in that "
    "place. Only cells that every storage has are drawn.",
    needs=("codec", "streams", "phase", "elapsed_ns"),
    draw=across_intervals,
    order=65,
    applies=several,
)
