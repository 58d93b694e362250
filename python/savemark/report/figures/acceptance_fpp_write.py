"""Write a file per process, with the original study's definitions."""

from __future__ import annotations

from savemark.report.figure import Figure
from savemark.report.figures._acceptance import HOW, applies, speeds

FIGURE = Figure(
    name="acceptance_fpp_write",
    section="study",
    title="Write a file per process",
    caption=f"Bandwidth against the number of workers, each with a file of its own. {HOW}",
    needs=("part", "phase", "elapsed_ns"),
    draw=speeds("write", "file per process"),
    order=62,
    applies=applies("file per process"),
)
