"""The report of one or more runs: page, Markdown, tables, figures, and the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from savemark.records import Run

__all__ = ["build", "show", "summary"]


def build(run: Path | Run, *, show_blocked: bool = False) -> Path:
    """Write report.html, report.md, tables/ and figures/ into the run's folder; return the page."""
    from savemark.report.write import write

    return write(run, show_blocked=show_blocked)


def show(run: Path | Run, console: Console, *, show_blocked: bool = False) -> None:
    """Print the result as a table; quick, it draws nothing."""
    from savemark.report.terminal import show as show_result

    show_result(run, console, show_blocked=show_blocked)


def summary(run: Path | Run, *, show_blocked: bool = False) -> dict[str, Any]:
    """Return the result as data that JSON can hold; blocked numbers are null unless shown."""
    from savemark.report.json import digest

    return digest(run, show_blocked=show_blocked)
