"""The report of a run folder: one page, the same as Markdown, tables, figures, and the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["build", "summary", "terminal"]


def build(run_dir: Path) -> Path:
    """Write report.html, report.md, tables/ and figures/ into the run folder; return the page."""
    from savemark.report.write import write

    return write(run_dir)


def terminal(run_dir: Path, console: Console) -> None:
    """Print the result as a table; quick, it draws nothing."""
    from savemark.report.screen import show

    show(run_dir, console)


def summary(run_dir: Path) -> dict[str, Any]:
    """Return the result as data that JSON can hold."""
    from savemark.report.digest import digest

    return digest(run_dir)
