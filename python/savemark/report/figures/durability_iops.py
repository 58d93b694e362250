"""The fsync study: I/Os per second."""

from __future__ import annotations

from savemark.report.durability import NEEDS, applies
from savemark.report.figure import Figure
from savemark.report.figures._durability import lines

FIGURE = Figure(
    name="iops",
    section="legacy",
    title="Legacy: average I/O operations",
    caption="The original study’s figure: writes / wall-clock time, computing included. All "
    "writes are of one size, so it has the shape of the throughput.",
    needs=NEEDS,
    draw=lines(lambda p: p.iops, "I/Os per second"),
    order=82,
    applies=applies,
)
