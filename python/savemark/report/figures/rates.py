"""The picture of a study in parts, and of work that is counted: speeds, part by part."""

from __future__ import annotations

from savemark.report.analysis import Analysis
from savemark.report.figure import Figure, Panel
from savemark.report.figures._rates import panels


def applies(analysis: Analysis) -> str | None:
    """Seconds of one workload are compared in the other pictures."""
    if analysis.parts or analysis.counted:
        return None
    return "one workload that moves bytes: its times are drawn"


def draw(analysis: Analysis) -> list[Panel]:
    """The panels of each part, in the order of the study."""
    return [panel for part in analysis.parts or [""] for panel in panels(analysis, part)]


FIGURE = Figure(
    name="rates",
    section="picture",
    title="Speed of every setting",
    caption="Big marks are medians, their bars the 95 % interval (below 6 repeats: the range), "
    "small dots the repeats; hover or focus a big mark for its numbers. GB/s are 10⁹ user bytes "
    "per second; op/s and IOPS are operations of all workers together. Lines join numbers only.",
    needs=("setting", "phase", "elapsed_ns"),
    draw=draw,
    order=10,
    applies=applies,
)
