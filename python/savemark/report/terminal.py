"""The result on a terminal: the answer in a few lines; of a large study its tables before it."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from savemark.advice.verdict import State
from savemark.checks import Verdict as Severity
from savemark.records import Run
from savemark.report import additions, blocked, expecting, fitting, io500, stopping
from savemark.report.analysis import Analysis, analyse
from savemark.report.contents import first_screen
from savemark.report.document import Message, Number, Spoken, Verdict
from savemark.report.facts import ceiling_list, headline
from savemark.report.grid import labelled, print_table, width
from savemark.report.settings import Settings, settings, whole
from savemark.report.verdict import shown
from savemark.stats import TargetResult

UNITS = (
    'GB/s of user bytes (10⁹); "of limit" = share of the ceiling that binds, measured in this run'
)
COUNTS = "op/s, IOPS: operations per second of all workers; CPU in µs per operation"
STYLES = {Severity.BLOCK: "bold red", Severity.FLAG: "yellow", Severity.NOTE: "cyan"}
COLOURS = {State.TRUSTED: "bold green", State.PROVISIONAL: "bold yellow"}
# Beside the answer of a study in two parts, or of files, there is room for so many on a terminal.
ANSWERS = 6
LABEL = 9


def show(source: Path | Run, console: Console, *, show_blocked: bool = False) -> None:
    """Print everything but the path of the report."""
    analysis = analyse(source, show_blocked=show_blocked)
    for table in expecting.tables(analysis):
        _print(console, table.title, "bold")
        print_table(console, table)
        console.print()
    race = bool(analysis.run.study.race)
    if not race:
        _tables(console, analysis)
    for line in blocked.listed(analysis):
        _print(console, line, "bold red")
    verdict = first_screen(analysis)
    _verdict(console, verdict)
    if not race:
        _messages(console, analysis)
    elif verdict.caveats:
        _labelled(console, "caveats", verdict.caveats)
    _next(console, verdict)


def _verdict(console: Console, verdict: Verdict) -> None:
    """The answers; in sentences where it is a score, a study in parts, or nothing at all."""
    if not verdict.answers:
        for sentence in verdict.sentences:
            _print(console, sentence, "bold")
        words = (
            f"{verdict.state.value}: {verdict.reason}" if verdict.reason else verdict.state.value
        )
        _labelled(console, "result", words)
        return
    if verdict.expected:
        _print(console, verdict.expected, "bold")
    for answer in verdict.answers[:ANSWERS]:
        _answer(console, answer)
    if (more := len(verdict.answers) - ANSWERS) > 0:
        _print(console, f"… {more} more answers in the report", "dim")


def _answer(console: Console, said: Spoken) -> None:
    """Title and state in one line, the two speeds, and what stands beside them."""
    head = Table.grid(padding=(0, 1), expand=True)
    head.add_column(overflow="fold", ratio=1)
    head.add_column(justify="right", no_wrap=True)
    about = f"{said.about}: " if said.about else ""
    title = Text(f"{about}{said.title}", "bold")
    head.add_row(title, Text(said.state.value, COLOURS.get(said.state, "bold red")))
    console.print(head)
    if said.numbers:
        console.print(_numbers(console, said.numbers))
    for label, text in said.lines:
        if label == "codec":
            # What is not sure yet has no room for what would be elsewhere; the report has it.
            if said.state is State.TRUSTED:
                _print(console, text)
        else:
            _labelled(console, label, text)


def _numbers(console: Console, numbers: tuple[Number, ...]) -> Table:
    """A line per phase; where that is too wide, without the baseline, the limit, the interval."""
    for kept in ("interval limit times", "interval limit", "interval", ""):
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(min_width=LABEL - 2, no_wrap=True)
        grid.add_column(no_wrap=True)
        for _ in kept.split():
            grid.add_column(no_wrap=True)
        for each in numbers:
            rest = (Text(getattr(each, name)) for name in kept.split())
            grid.add_row(Text(each.phase), Text(f"{each.value} {each.unit}"), *rest)
        if width(console, grid) <= console.width:
            break
    return grid


def _next(console: Console, verdict: Verdict) -> None:
    """The one command, on a line of its own that a terminal may wrap and nobody cuts."""
    if verdict.step is None:
        return
    if verdict.cost:
        _labelled(console, "next", f"{verdict.cost}:")
    label = "" if verdict.cost else "next"
    line = Text(f"{label:<{LABEL}}{verdict.step.command}")
    console.print(line, soft_wrap=True)


def _tables(console: Console, analysis: Analysis) -> None:
    """The tables of a study that is no race."""
    # Twelve phases side by side would not fit: IO500 has a table of its own.
    some = (settings if analysis.parts else whole)(analysis)
    tables = [] if io500.scored(analysis) else list(some)
    ends = [_target(console, analysis, result, tables) for result in analysis.results]
    brief = [table for table in additions.tables(analysis) if table.brief]
    for each in [*io500.tables(analysis), *brief]:
        _print(console, each.title, "bold")
        print_table(console, each)
        console.print()
    cells = [cell for result in analysis.results for cell in result.cells]
    if io500.scored(analysis):
        _print(console, io500.HOW, "dim")
    elif any(not cell.counted for cell in cells) or not cells:
        _print(console, UNITS, "dim")
    if any(ends):
        _print(console, fitting.FIRST, "dim")
    if any(cell.counted for cell in cells):
        _print(console, COUNTS, "dim")
    console.print()


def _messages(console: Console, analysis: Analysis) -> None:
    if rule := stopping.sentence(analysis.run):
        _labelled(console, "repeats", rule)
    found, more = shown(analysis)
    for each in found:
        _message(console, each)
    if more:
        _print(console, f"… {more} more in the report", "dim")


def _target(
    console: Console, analysis: Analysis, result: TargetResult, tables: list[Settings]
) -> bool:
    """Print what one target comes to; return whether a table of it tells first and last."""
    main = [c for c in ceiling_list(result) if not c.name.startswith("codec/")]
    name = f"{result.label}: " if len(analysis.results) > 1 else ""
    tops = " · ".join(headline(c) for c in main) or "none measured"
    _labelled(console, "ceilings", name + tops)
    console.print()
    # A part of a study is a table of its own: other workloads have other columns.
    ends = False
    for found in tables:
        if found.result.label != result.label:
            continue
        if found.part:
            _print(console, found.part, "bold")
        ends |= fitting.show(console, found)
        if found.part:
            console.print()
    return ends


def _message(console: Console, message: Message) -> None:
    word = {Severity.BLOCK: "block", Severity.FLAG: "flag", Severity.NOTE: "note"}[message.verdict]
    text = f"{', '.join(message.ids)}: {message.text}"
    _labelled(console, word, text, STYLES[message.verdict])


def _labelled(console: Console, label: str, text: str, style: str = "") -> None:
    labelled(console, label, text, style, LABEL - 1)


def _print(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style))
