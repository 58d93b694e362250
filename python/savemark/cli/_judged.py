"""The exit code of a run that was judged."""

from __future__ import annotations

from typing import Any

from savemark.cli._print import echo
from savemark.errors import EXIT_CODES


def judged(summary: dict[str, Any], *, strict: bool = False) -> int:
    """Say on stderr which expectations were not met; `strict` refuses an answer without trust.

    What only checks, and so has no verdict, is refused where it is not valid.
    """
    if expected := summary.get("expected"):
        from savemark.report.expecting import failure

        if said := failure([each["outcome"] for each in expected]):
            kind, message = said
            echo(f"error: {message}", err=True)
            return EXIT_CODES[kind]
    trusted = summary["state"] == "trusted" if "state" in summary else summary["valid"]
    return 1 if strict and not trusted else 0
