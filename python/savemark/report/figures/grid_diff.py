"""How far first and last are apart: the price of the slowest worker."""

from __future__ import annotations

from typing import Any

from savemark.report.figure import Figure
from savemark.report.figures._grid import HOW, applies, grid, per


def difference(row: dict[str, Any]) -> float:
    """|first − last| of one trial, GB/s."""
    first = per("first_done_bytes", "first_done_ns")(row)
    return abs(first - per("user_bytes", "elapsed_ns")(row))


FIGURE = Figure(
    name="grid_diff",
    section="distributions",
    title="Difference of first and last",
    caption="|until the first − until the last|, trial by trial: what the slowest workers cost. "
    f"Large differences of very short trials are start-up, no property of the storage. {HOW[0]}",
    needs=("setting", "phase", "first_done_ns", "first_done_bytes", "user_bytes"),
    draw=grid(difference, ceiling=False),
    order=43,
    applies=applies,
    columns=1,
    wide=True,
)
