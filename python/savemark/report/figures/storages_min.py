"""Across storages: the original study’s stacked bars of minima."""

from __future__ import annotations

from savemark.report.figure import Figure
from savemark.report.figures._cells import across
from savemark.report.study import several

FIGURE = Figure(
    name="storages_min",
    section="study",
    title="Legacy: storages beside each other, minimum times",
    caption="The original study’s figure: a panel per codec; for each number of streams a bar per "
    "storage, strong for the checkpoint, pale for the restore on top of it, and the sum "
    "in seconds above. The two minima may come from different repeats, so their sum may "
    "be a time that no run took. A bar that is not there has no data.",
    needs=("codec", "streams", "phase", "elapsed_ns"),
    draw=across(min),
    order=73,
    applies=several,
)
