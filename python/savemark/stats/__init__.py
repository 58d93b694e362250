"""Medians, intervals, tests, ties, and what binds. Every rule names its source."""

from savemark.stats.ceilings import Ceiling, Ceilings, Limit, limit, rate
from savemark.stats.cells import Cell, PhaseStat
from savemark.stats.compare import group_of_best, holm, mann_whitney, repeats_needed, smallest_p
from savemark.stats.results import TOTAL, Ranking, TargetResult, results
from savemark.stats.spread import Spread, median, spread

__all__ = [
    "TOTAL",
    "Ceiling",
    "Ceilings",
    "Cell",
    "Limit",
    "PhaseStat",
    "Ranking",
    "Spread",
    "TargetResult",
    "group_of_best",
    "holm",
    "limit",
    "mann_whitney",
    "median",
    "rate",
    "repeats_needed",
    "results",
    "smallest_p",
    "spread",
]
