"""The original study's figure `first`: medians in MiB/s, ± one standard deviation."""

from __future__ import annotations

from savemark.report.figure import Figure
from savemark.report.figures._grid import legacy, per, per_study

FIGURE = Figure(
    name="gpu_grid_first",
    section="study",
    title="First (MiB/s)",
    caption="The rate until the first worker ended. "
    "Median of all repeats ± one standard deviation, in MiB/s, as published; letters "
    "name the panels.",
    needs=("first_done_ns", "first_done_bytes"),
    draw=legacy(per("first_done_bytes", "first_done_ns")),
    order=60,
    applies=per_study,
    columns=1,
    wide=True,
)
