"""The original study's figure `last`: medians in MiB/s, ± one standard deviation."""

from __future__ import annotations

from savemark.report.figure import Figure
from savemark.report.figures._grid import legacy, per, per_study

FIGURE = Figure(
    name="gpu_grid_last",
    section="study",
    title="Last (MiB/s)",
    caption="The rate until the last worker ended. "
    "Median of all repeats ± one standard deviation, in MiB/s, as published; letters "
    "name the panels.",
    needs=("elapsed_ns", "user_bytes"),
    draw=legacy(per("user_bytes", "elapsed_ns")),
    order=61,
    applies=per_study,
    columns=1,
    wide=True,
)
