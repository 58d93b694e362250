"""One file per figure; each says what it needs, and a run without it is told why."""

from __future__ import annotations

import importlib
import pkgutil

from savemark.report.figure import Figure


def all_figures() -> list[Figure]:
    """Return the figures found in this folder, in the order of the page."""
    names = [m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")]
    found = [importlib.import_module(f"{__name__}.{name}").FIGURE for name in names]
    return sorted(found, key=lambda figure: figure.order)
