"""Medians, intervals, tests, ties, and what binds. Every rule names its source."""

from savemark.stats.ceilings import Bounds, Ceiling, Ceilings, Limit
from savemark.stats.cells import TOTAL, Cell, Key, PhaseStat
from savemark.stats.change import Change, change_point
from savemark.stats.compare import holm, mann_whitney
from savemark.stats.effect import Effect, difference_of_medians, ratio_of_medians
from savemark.stats.equivalence import Against, Comparison, against_best
from savemark.stats.modes import Modes, two_modes
from savemark.stats.nested import Components, components
from savemark.stats.repeats import (
    repeats_for_width,
    repeats_needed,
    repeats_to_find,
    smallest_p,
)
from savemark.stats.results import Ranking, TargetResult, results
from savemark.stats.spread import Spread, median, speeds, spread
from savemark.stats.ties import group_of_best
from savemark.stats.trend import Trend, mann_kendall

__all__ = [
    "TOTAL",
    "Against",
    "Bounds",
    "Ceiling",
    "Ceilings",
    "Cell",
    "Change",
    "Comparison",
    "Components",
    "Effect",
    "Key",
    "Limit",
    "Modes",
    "PhaseStat",
    "Ranking",
    "Spread",
    "TargetResult",
    "Trend",
    "against_best",
    "change_point",
    "components",
    "difference_of_medians",
    "group_of_best",
    "holm",
    "mann_kendall",
    "mann_whitney",
    "median",
    "ratio_of_medians",
    "repeats_for_width",
    "repeats_needed",
    "repeats_to_find",
    "results",
    "smallest_p",
    "speeds",
    "spread",
    "two_modes",
]
