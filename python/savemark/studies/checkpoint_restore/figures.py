"""The figures of the original, and the same with intervals and ties."""

from __future__ import annotations

from savemark.report.figure import Figure
from savemark.stats import median
from savemark.studies.checkpoint_restore import memory_limits
from savemark.studies.checkpoint_restore.cells import across, across_intervals, grid, intervals
from savemark.studies.checkpoint_restore.parts import several, why_not

FIGURES = (
    Figure(
        name="storages_intervals",
        section="study",
        title="Storages beside each other: medians and intervals",
        caption="A panel per codec; for each number of streams the storages side by side: the "
        "median of save + restore, and its 95 % interval (with fewer than 6 repeats the range). "
        "Filled marks are storages that the repeats cannot tell from the fastest one in that "
        "place. Only cells that every storage has are drawn.",
        needs=("codec", "streams", "phase", "elapsed_ns"),
        draw=across_intervals,
        order=65,
        why_not=several,
    ),
    Figure(
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
        why_not=why_not,
    ),
    Figure(
        name="study_min",
        section="study",
        title="Legacy: minimum times per storage",
        caption="The original study’s figure: the smallest time of all repeats. Bars of one codec "
        "stand beside each other: checkpoint, restore, and the smallest sum of both in one "
        "run. A codec without a bar has no data there; that is not a zero. The best of "
        "several repeats is luck: prefer the figure with intervals.",
        needs=("codec", "streams", "phase", "elapsed_ns"),
        draw=grid(min, deviation=False),
        order=71,
        why_not=why_not,
    ),
    Figure(
        name="study_median",
        section="study",
        title="Legacy: median times per storage",
        caption="The original study’s figure: medians, with one standard deviation of the repeats "
        "to each side. With few and skewed repeats a standard deviation says little about the "
        "median: prefer the figure with intervals. A codec without a bar has no data there; "
        "that is not a zero.",
        needs=("codec", "streams", "phase", "elapsed_ns"),
        draw=grid(median, deviation=True),
        order=72,
        why_not=why_not,
    ),
    Figure(
        name="storages_min",
        section="study",
        title="Legacy: storages beside each other, minimum times",
        caption="The original study’s figure: a panel per codec; for each number of streams a bar "
        "per storage, strong for the checkpoint, pale for the restore on top of it, and the sum "
        "in seconds above. The two minima may come from different repeats, so their sum may "
        "be a time that no run took. A bar that is not there has no data.",
        needs=("codec", "streams", "phase", "elapsed_ns"),
        draw=across(min),
        order=73,
        why_not=several,
    ),
    Figure(
        name="storages_median",
        section="study",
        title="Legacy: storages beside each other, median times",
        caption="The original study’s figure: as the one before, with medians. The sum of two "
        "medians is not the median of the sum. A bar that is not there has no data.",
        needs=("codec", "streams", "phase", "elapsed_ns"),
        draw=across(median),
        order=74,
        why_not=several,
    ),
    *memory_limits.FIGURES,
)
