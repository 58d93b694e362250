"""The original GPU study's figures, all of one shape: medians in MiB/s ± one standard deviation."""

from __future__ import annotations

from savemark.report.figure import Figure
from savemark.report.figures._grid import Rate, legacy, per_study


def published(name: str, what: str, needs: tuple[str, ...], rate: Rate, order: int) -> Figure:
    """Return the figure `gpu_grid_<name>` of a rate in GB/s; `what` says what is shown."""
    return Figure(
        name=f"gpu_grid_{name}",
        section="study",
        title=f"{name.capitalize()} (MiB/s)",
        caption=f"{what} Median of all repeats ± one standard deviation, in MiB/s, as published; "
        "letters name the panels.",
        needs=needs,
        draw=legacy(rate),
        order=order,
        applies=per_study,
        columns=1,
        wide=True,
    )
