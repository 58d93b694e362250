"""Read from a shared file, with the original study's definitions."""

from __future__ import annotations

from savemark.report.figure import Figure
from savemark.report.figures._acceptance import HOW, applies, speeds

FIGURE = Figure(
    name="acceptance_shared_read",
    section="study",
    title="Read from a shared file",
    caption=f"Bandwidth of reading it back, nobody what it wrote itself. {HOW}",
    needs=("part", "phase", "elapsed_ns"),
    draw=speeds("read", "stripes", "shared file"),
    order=61,
    applies=applies("stripes", "shared file"),
)
