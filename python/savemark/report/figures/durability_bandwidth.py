"""The fsync study: throughput as the application saw it."""

from __future__ import annotations

from savemark.report.durability import NEEDS, applies
from savemark.report.figure import Figure
from savemark.report.figures._durability import lines

FIGURE = Figure(
    name="bandwidth",
    section="legacy",
    title="Legacy: average throughput",
    caption="The original study’s figure: bytes written / wall-clock time, computing included. "
    "Without a sync the bytes are in the page cache, not on the disk.",
    needs=NEEDS,
    draw=lines(lambda p: p.bandwidth, "MiB/s"),
    order=81,
    applies=applies,
)
