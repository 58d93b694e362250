"""The honesty checks: evidence → verdict → fix. One function per check, found by its decorator."""

from savemark.checks import (  # noqa: F401  (they register their checks)
    cache,
    ceiling,
    clocks,
    coverage,
    data,
    device,
    flush,
    gds,
    interference,
    length,
    memory,
    names,
    observer,
    order,
    processor,
    repeats,
    series,
    shared,
    tail,
    times,
    tool,
    units,
    verify,
)
from savemark.checks.registry import (
    Evidence,
    Finding,
    Remedy,
    Verdict,
    catalogue,
    registered,
    run_checks,
)

__all__ = [
    "Evidence",
    "Finding",
    "Remedy",
    "Verdict",
    "catalogue",
    "registered",
    "run_checks",
]
