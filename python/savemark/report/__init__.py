"""The report of a run folder: one page, the same as Markdown, tables, figures, and the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["build", "summary", "terminal"]


def build(run_dir: Path, *, show_blocked: bool = False) -> Path:
    """Write report.html, report.md, tables/ and figures/ into the run folder; return the page."""
    from savemark.report.write import write

    return write(run_dir, show_blocked=show_blocked)


def terminal(run_dir: Path, console: Console, *, show_blocked: bool = False) -> None:
    """Print the result as a table; quick, it draws nothing."""
    from savemark.report.screen import show

    show(run_dir, console, show_blocked=show_blocked)


def summary(run_dir: Path, *, show_blocked: bool = False) -> dict[str, Any]:
    """Return the result as data that JSON can hold; blocked numbers are null unless shown."""
    from savemark.report.digest import digest

    return digest(run_dir, show_blocked=show_blocked)
