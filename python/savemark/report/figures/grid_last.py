"""The picture of three and more factors: the rate until the last worker ended."""

from __future__ import annotations

from savemark.report.figure import Figure
from savemark.report.figures._grid import HOW, applies, grid, per

FIGURE = Figure(
    name="grid_last",
    section="picture",
    title="Until the last worker ended",
    caption=f"Bytes of all workers / time until the last one ended. {' '.join(HOW)}",
    needs=("setting", "phase", "elapsed_ns", "user_bytes"),
    draw=grid(per("user_bytes", "elapsed_ns"), ceiling=True),
    order=11,
    applies=applies,
    columns=1,
    wide=True,
)
