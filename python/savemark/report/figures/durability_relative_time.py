"""The fsync study: seconds per iteration against threads."""

from __future__ import annotations

from savemark.report.durability import NEEDS, applies
from savemark.report.figure import Figure
from savemark.report.figures._durability import lines

FIGURE = Figure(
    name="relative_time",
    section="legacy",
    title="Legacy: runtime per iteration",
    caption="The original study’s figure: wall-clock time / iterations. Computing is in it; one "
    "run per mark.",
    needs=NEEDS,
    draw=lines(lambda p: p.relative_time, "seconds per iteration"),
    order=80,
    applies=applies,
)
