"""Write to a shared file, with the original study's definitions."""

from __future__ import annotations

from savemark.report.figure import Figure
from savemark.report.figures._acceptance import HOW, applies, speeds

FIGURE = Figure(
    name="acceptance_shared_write",
    section="study",
    title="Write to a shared file",
    caption="Bandwidth of writing one file from all workers, against its stripes and against "
    f"the number of workers. {HOW}",
    needs=("part", "phase", "elapsed_ns"),
    draw=speeds("write", "stripes", "shared file"),
    order=60,
    applies=applies("stripes", "shared file"),
)
