"""The rate of all workers until the first one ended."""

from __future__ import annotations

from savemark.report.figure import Figure
from savemark.report.figures._grid import HOW, applies, grid, per

FIGURE = Figure(
    name="grid_first",
    section="distributions",
    title="Until the first worker ended",
    caption="Bytes that all workers together had moved when the first one ended / the time until "
    f"then: the rate while everybody still worked. {' '.join(HOW)}",
    needs=("setting", "phase", "first_done_ns", "first_done_bytes"),
    draw=grid(per("first_done_bytes", "first_done_ns"), ceiling=True),
    order=42,
    applies=applies,
    columns=1,
    wide=True,
)
