"""The result on a terminal: ceilings, the fastest settings, the decision, the notes."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from savemark.checks import Finding, Verdict
from savemark.records import Run
from savemark.report import blocked, expecting, io500, published, screen_table, stopping
from savemark.report.analysis import Analysis, analyse
from savemark.report.facts import ceiling_list, headline
from savemark.report.sides import print_table
from savemark.report.verdict import decision, messages
from savemark.stats import TargetResult

UNITS = (
    'GB/s of user bytes (10⁹); "of limit" = share of the ceiling that binds, measured in this run'
)
COUNTS = "op/s, IOPS: operations per second of all workers; CPU in µs per operation"
STYLES = {Verdict.BLOCK: "bold red", Verdict.FLAG: "yellow", Verdict.NOTE: "cyan"}


def show(source: Path | Run, console: Console, *, show_blocked: bool = False) -> None:
    """Print everything but the path of the report."""
    analysis = analyse(source, show_blocked=show_blocked)
    for table in expecting.tables(analysis):
        _print(console, table.title, "bold")
        print_table(console, table)
        console.print()
    ends = [_target(console, analysis, result) for result in analysis.results]
    for each in [*io500.tables(analysis), *published.short(analysis)]:
        _print(console, each.title, "bold")
        print_table(console, each)
        console.print()
    for line in blocked.listed(analysis):
        _print(console, line, "bold red")
    cells = [cell for result in analysis.results for cell in result.cells]
    if io500.scored(analysis):
        _print(console, io500.HOW, "dim")
    elif any(not cell.counted for cell in cells) or not cells:
        _print(console, UNITS, "dim")
    if any(ends):
        _print(console, screen_table.FIRST, "dim")
    if any(cell.counted for cell in cells):
        _print(console, COUNTS, "dim")
    console.print()
    for sentence in decision(analysis):
        _print(console, sentence, "bold")
    if rule := stopping.sentence(analysis.run):
        _labelled(console, "repeats", rule, "")
    state, words = analysis.badge
    _labelled(console, "result", words, {"valid": "green", "noted": "green"}.get(state, "bold red"))
    shown, more = messages(analysis)
    for finding in shown:
        _note(console, finding)
    if more:
        _print(console, f"… {more} more in the report", "dim")


def _target(console: Console, analysis: Analysis, result: TargetResult) -> bool:
    """Print what one target comes to; return whether a table of it tells first and last."""
    main = [c for c in ceiling_list(result) if not c.name.startswith("codec/")]
    name = f"{result.label}: " if len(analysis.results) > 1 else ""
    tops = " · ".join(headline(c) for c in main) or "none measured"
    _labelled(console, "ceilings", name + tops, "")
    console.print()
    # A part of a study is a table of its own: other workloads have other columns.
    ends = False
    for name, part in _parts(analysis, result).items():
        if name:
            _print(console, name, "bold")
        ends |= screen_table.show(console, part, name, coded=analysis.coded)
        if name:
            console.print()
    return ends


def _parts(analysis: Analysis, result: TargetResult) -> dict[str, TargetResult]:
    """What has a table of its own; twelve phases side by side would not fit: IO500 has another."""
    if io500.scored(analysis):
        return {}
    return analysis.apart(result) if analysis.parts else {"": result}


def _note(console: Console, finding: Finding) -> None:
    word = {Verdict.BLOCK: "block", Verdict.FLAG: "flag", Verdict.NOTE: "note"}[finding.verdict]
    _labelled(console, f"{word} {finding.id}", finding.message, STYLES[finding.verdict])


def _labelled(console: Console, label: str, text: str, style: str) -> None:
    """A label, and its text with a hanging indent."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=12, no_wrap=True)
    grid.add_column(overflow="fold")
    plain = label == "ceilings"
    grid.add_row(
        Text(label, "" if plain else style), Text(text, style if label == "result" else "")
    )
    console.print(grid)


def _print(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style))
