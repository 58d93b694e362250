"""The honesty checks: evidence → verdict → fix. One function per check, found by its decorator."""

from savemark.checks import cache, coverage, device, length, repeats, verify  # noqa: F401  (register)
from savemark.checks.registry import Evidence, Finding, Verdict, catalogue, run_checks

__all__ = ["Evidence", "Finding", "Verdict", "catalogue", "run_checks"]
