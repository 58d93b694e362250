"""The tables of the shipped studies, each as its original has it and corrected."""

from __future__ import annotations

from savemark.report import acceptance, gpu_grid, mounts, stalls
from savemark.report.analysis import Analysis
from savemark.report.document import Table
from savemark.report.storages import storages_tables

# Those that say what a study is about; a terminal shows them, too.
SHORT = ("acceptance_maxima", "gpu_first_last", "mounts", stalls.NAME)


def short(analysis: Analysis) -> list[Table]:
    """The few tables that stand for a shipped study."""
    return [table for table in tables(analysis) if table.name in SHORT]


def tables(analysis: Analysis) -> list[Table]:
    """All that this run has; each study looks for its own."""
    found = [*acceptance.tables(analysis), *gpu_grid.tables(analysis), *mounts.tables(analysis)]
    if found:
        return found
    return [*stalls.tables(analysis), *storages_tables(analysis)]
