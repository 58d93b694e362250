"""The figures of the original: medians in MiB/s ± one standard deviation."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, stdev

from savemark.report.analysis import Analysis
from savemark.report.figure import Figure
from savemark.report.figures.grids import Look, Rate, difference, grid, per, why_not
from savemark.studies.gpu_read_grid.tables import STUDIES

FIRST = ("first_done_bytes", "first_done_ns")
LAST = ("user_bytes", "elapsed_ns")
BOTH = ("first_done_ns", "first_done_bytes", "user_bytes")


def _median_and_deviation(samples: Sequence[float]) -> tuple[float, float, float, str]:
    middle, off = median(samples), stdev(samples) if len(samples) > 1 else 0.0
    return middle, max(middle - off, 0.0), middle + off, "± one standard deviation"


LOOK = Look("MiB/s", 1e9 / 2**20, _median_and_deviation)


def _why_not(analysis: Analysis) -> str | None:
    if analysis.run.study_name not in STUDIES:
        return f"it belongs to the study {STUDIES[0]}"
    return why_not(analysis)


def _figure(name: str, what: str, needs: tuple[str, ...], rate: Rate, order: int) -> Figure:
    return Figure(
        name=f"gpu_grid_{name}",
        section="study",
        title=f"{name.capitalize()} (MiB/s)",
        caption=f"{what} Median of all repeats ± one standard deviation, in MiB/s, as published; "
        "letters name the panels.",
        needs=needs,
        draw=grid(rate, ceiling=False, look=LOOK),
        order=order,
        why_not=_why_not,
        columns=1,
        wide=True,
    )


FIGURES = (
    _figure("first", "The rate until the first worker ended.", FIRST, per(*FIRST), 60),
    _figure("last", "The rate until the last worker ended.", LAST, per(*LAST), 61),
    _figure("diff", "|first − last|, trial by trial.", BOTH, difference, 62),
)
