"""The fsync study: run time of each version."""

from __future__ import annotations

from savemark.report.durability import NEEDS, applies
from savemark.report.figure import Figure
from savemark.report.figures._durability import runtime

FIGURE = Figure(
    name="runtime",
    section="legacy",
    title="Legacy: runtime",
    caption="The original study’s figures, one per version: wall-clock time. The versions ran "
    "different numbers of iterations, so compare the shapes only.",
    needs=NEEDS,
    draw=runtime,
    order=85,
    applies=applies,
    apart=True,
)
