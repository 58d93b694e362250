"""The fsync study: fsync, other I/O and run time of one version, per number of threads."""

from __future__ import annotations

from savemark.report.durability import NEEDS, applies
from savemark.report.figure import Figure
from savemark.report.figures._durability import grouped

FIGURE = Figure(
    name="time",
    section="legacy",
    title="Legacy: composition per number of threads",
    caption="The original study’s figures, one per version. The bars are not of one kind: fsync "
    "and other I/O are summed over the threads, the run time is of the clock, so the "
    "first two may be higher than the last (HC-16).",
    needs=NEEDS,
    draw=grouped,
    order=84,
    applies=applies,
    apart=True,
)
