"""The result on a terminal: ceilings, the fastest settings, the decision, the notes."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from savemark.checks import Finding, Verdict
from savemark.records import Run
from savemark.report import blocked, published, stopping
from savemark.report.analysis import Analysis, analyse, ranked
from savemark.report.facts import ceiling_list, headline
from savemark.report.settings import counted, place, range_of
from savemark.report.sides import print_table
from savemark.report.verdict import decision, messages
from savemark.report.words import binds, counts, cpu, gbs, kinds, percent, seconds, span
from savemark.stats import Cell, TargetResult

ROWS = 12
LATENCY_UP_TO = 2  # phases with a latency each; of more, the report has them
WIDE = 96  # below this the intervals are left out
UNITS = (
    'GB/s of user bytes (10⁹); "of limit" = share of the ceiling that binds, measured in this run'
)
COUNTS = "op/s, IOPS: operations per second of all workers; CPU in µs per operation"
STYLES = {Verdict.BLOCK: "bold red", Verdict.FLAG: "yellow", Verdict.NOTE: "cyan"}


def show(source: Path | Run, console: Console, *, show_blocked: bool = False) -> None:
    """Print everything but the path of the report."""
    analysis = analyse(source, show_blocked=show_blocked)
    for result in analysis.results:
        _target(console, analysis, result)
    for each in published.short(analysis):
        _print(console, each.title, "bold")
        print_table(console, each)
        console.print()
    for line in blocked.listed(analysis):
        _print(console, line, "bold red")
    cells = [cell for result in analysis.results for cell in result.cells]
    if any(not cell.counted for cell in cells) or not cells:
        _print(console, UNITS, "dim")
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


def _target(console: Console, analysis: Analysis, result: TargetResult) -> None:
    main = [c for c in ceiling_list(result) if not c.name.startswith("codec/")]
    name = f"{result.label}: " if len(analysis.results) > 1 else ""
    tops = " · ".join(headline(c) for c in main) or "none measured"
    _labelled(console, "ceilings", name + tops, "")
    console.print()
    # A part of a study is a table of its own: other workloads have other columns.
    for name, part in (analysis.apart(result) if analysis.parts else {"": result}).items():
        if name:
            _print(console, name, "bold")
        _table(console, part, name)


def _table(console: Console, result: TargetResult, part: str) -> None:
    cells, found = ranked(result)
    if not cells:
        return
    wide = console.width >= WIDE
    table = _columns(result, cells, wide)
    for cell in cells[:ROWS]:
        mark = place(cell, found)
        words = {"best": "◀ best", "tied": "= tied"}.get(mark, "") if len(cells) > 1 else ""
        words = words or (f"{cell.failed} failed" if cell.failed else "")
        row = [cell.setting.removeprefix(part).removeprefix(", ") or "the only setting"]
        for phase in result.phases:
            row += _phase(cell, phase, wide)
        row += _cost(cell)
        table.add_row(*(Text(word) for word in row), words, style="bold" if mark == "best" else "")
    console.print(table)
    if len(cells) > ROWS:
        _print(console, f"… all {len(cells)} in the report", "dim")


def _cost(cell: Cell) -> list[str]:
    if cell.counted:
        return [cpu(cell.cpu_s_per_operation)]
    return [f"{cell.ratio:.2f}", f"{cell.cpu_s_per_gib:.2f}"] if cell.sized else ["–", "–"]


def _columns(result: TargetResult, cells: list[Cell], wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("\nsetting", no_wrap=True)
    promise = {"save": "(durable)", "restore": "(verified)"}
    spreads = [p.seconds for cell in cells for p in cell.phases.values()]
    kind = kinds(spreads).replace("range, n = ", "range n=") if spreads else "range"
    if counted(result):
        return _counts(table, result, kind, wide)
    for name in result.phases:
        if wide:
            table.add_column(f"{name}\nmedian", justify="right", no_wrap=True, min_width=8)
            # Text, or rich would read the brackets as markup.
            table.add_column(Text(f"{promise.get(name, '')}\n[{kind}]"), no_wrap=True)
        else:
            table.add_column(f"{name}\nGB/s", justify="right", no_wrap=True)
        table.add_column("\nof limit", justify="right", no_wrap=True)
    table.add_column("stored\nratio", justify="right", no_wrap=True)
    table.add_column("CPU\ns/GiB", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    return table


def _counts(table: Table, result: TargetResult, kind: str, wide: bool) -> Table:
    """The columns of what is counted: the rate of each kind of operation, and its latency."""
    several = len(result.phases) > LATENCY_UP_TO
    for name in result.phases:
        unit = next(c.phases[name].unit for c in result.cells if name in c.phases)
        table.add_column(f"{name}\n{unit}", justify="right", no_wrap=True)
        if wide and not several:
            table.add_column(Text(f"\n[{kind}]"), no_wrap=True)
            table.add_column("latency\np50", justify="right", no_wrap=True)
            table.add_column("\np99", justify="right", no_wrap=True)
            table.add_column("\np99.99", justify="right", no_wrap=True)
    table.add_column("CPU\nµs/op", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    return table


def _count(cell: Cell, name: str, wide: bool) -> list[str]:
    several = len(cell.phases) > LATENCY_UP_TO
    width = 5 if wide and not several else 1
    phase = cell.phases[name]
    if name in cell.blocked:
        return [cell.blocked[name], *[""] * (width - 1)]
    ns = [phase.latency_ns.get(p) for p in ("p50", "p99", "p99_99")]
    row = [counts(phase.speed), range_of(phase), *("–" if n is None else span(n) for n in ns)]
    return row[:width]


def _phase(cell: Cell, name: str, wide: bool) -> list[str]:
    phase = cell.phases.get(name)
    empty = ["", ""] if wide else [""]
    if phase is not None and phase.counted:
        return _count(cell, name, wide)
    if phase is None:
        return ["–", *empty]
    if name in cell.blocked:
        return [cell.blocked[name], *empty]
    limit = f"{percent(phase.of_limit)} {binds(phase.limit)}".strip()
    brackets = [range_of(phase)] if wide else []
    middle = gbs(phase.user_rate) if phase.user_bytes else f"{seconds(phase.seconds.median)} s"
    return [middle, *brackets, limit]


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
