"""The figures of any run, by theme; each says what it needs, and why a run has none of it."""

from __future__ import annotations

import importlib

from savemark.report import additions
from savemark.report.figure import Figure

THEMES = (
    *("answer", "rates", "times", "grids", "io500", "stages", "threads", "thread_io", "latency"),
    *("tail", "timeline", "ranks", "effects", "main_effects", "interaction"),
    *("pareto", "order"),
)


def all_figures() -> list[Figure]:
    """Return all figures, those of studies too, in the order of the page."""
    modules = [importlib.import_module(f"{__name__}.{theme}") for theme in THEMES]
    own = [figure for module in modules for figure in module.FIGURES]
    return sorted([*own, *additions.figures()], key=lambda figure: figure.order)
