"""Per storage: each codec with its interval, and the settings that lead."""

from __future__ import annotations

from savemark.report.figure import Figure
from savemark.report.figures._cells import intervals
from savemark.report.study import applies

FIGURE = Figure(
    name="study_intervals",
    section="study",
    title="Each storage: medians and intervals",
    caption="Per storage a panel for each number of streams. A mark is the median of save "
    "(checkpoint), restore or their sum, the line through it its 95 % interval (with "
    "fewer than 6 repeats the range). Filled marks belong to settings that the repeats "
    "cannot tell from the fastest of that storage; hollow ones are slower.",
    needs=("codec", "streams", "phase", "elapsed_ns"),
    draw=intervals,
    order=70,
    applies=applies,
)
