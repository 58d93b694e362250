"""The tables of the shipped studies, each as its original has it and corrected."""

from __future__ import annotations

from savemark.report import acceptance, gpu_grid, mounts
from savemark.report.analysis import Analysis
from savemark.report.storages import storages_tables
from savemark.report.table import Table


def tables(analysis: Analysis) -> list[Table]:
    """All that this run has; each study looks for its own."""
    own = [study.tables(analysis) for study in (acceptance, gpu_grid, mounts)]
    return [*storages_tables(analysis), *(table for some in own for table in some)]
