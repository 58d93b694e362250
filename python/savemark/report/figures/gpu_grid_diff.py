"""The original study's figure `diff`: medians in MiB/s, ± one standard deviation."""

from __future__ import annotations

from savemark.report.figure import Figure
from savemark.report.figures._grid import legacy, per_study
from savemark.report.figures.grid_diff import difference

FIGURE = Figure(
    name="gpu_grid_diff",
    section="study",
    title="Diff (MiB/s)",
    caption="|first − last|, trial by trial. "
    "Median of all repeats ± one standard deviation, in MiB/s, as published; letters "
    "name the panels.",
    needs=("first_done_ns", "first_done_bytes", "user_bytes"),
    draw=legacy(difference),
    order=62,
    applies=per_study,
    columns=1,
    wide=True,
)
