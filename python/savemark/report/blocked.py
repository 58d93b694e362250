"""Numbers that a check forbids, where somebody asked for them: named, each with its check."""

from __future__ import annotations

import polars as pl

from savemark.report.analysis import Analysis
from savemark.report.text import gbs, seconds
from savemark.report.visible import marked


def phases(analysis: Analysis) -> pl.DataFrame:
    """The records of an analysis and `blocked_by`, the check that forbids the numbers of a row."""
    return marked(analysis.frame, analysis.results)


def listed(analysis: Analysis) -> list[str]:
    """Each forbidden number in a line, for a terminal; empty without `--show-blocked`."""
    return [
        f"{cell.blocked[name]} forbids: {name} of {cell.setting} on {cell.label}, "
        f"{seconds(phase.seconds.median)} s"
        + (f", {gbs(phase.user_rate)} GB/s" if phase.user_bytes else "")
        for result in analysis.results
        for cell in result.cells
        for name, phase in cell.phases.items()
        if name in cell.blocked
    ]
