"""The result on a terminal: the answer in a few lines; of a large study its tables before it."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from savemark.advice.verdict import State
from savemark.checks import Verdict
from savemark.records import Run
from savemark.report import additions, answers, blocked, expecting, fitting, io500, stopping
from savemark.report.analysis import Analysis, analyse
from savemark.report.document import Message, Number, Spoken
from savemark.report.facts import ceiling_list, headline
from savemark.report.grid import labelled, print_table, width
from savemark.report.remedies import beside, caveats, messages
from savemark.report.settings import Settings, settings, whole
from savemark.report.speech import cost, spoken
from savemark.report.verdict import decision, shown
from savemark.stats import TargetResult

UNITS = (
    'GB/s of user bytes (10⁹); "of limit" = share of the ceiling that binds, measured in this run'
)
COUNTS = "op/s, IOPS: operations per second of all workers; CPU in µs per operation"
STYLES = {Verdict.BLOCK: "bold red", Verdict.FLAG: "yellow", Verdict.NOTE: "cyan"}
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
    _answers(console, analysis)
    if race:
        if text := caveats(messages(beside(analysis))):
            _labelled(console, "caveats", text)
    else:
        _messages(console, analysis)
    _next(console, analysis)


def _answers(console: Console, analysis: Analysis) -> None:
    """The verdict, in sentences where it is a score or a study in parts."""
    if analysis.parts or io500.scored(analysis) or not analysis.results:
        word, reason = answers.state(analysis)
        for sentence in decision(analysis):
            _print(console, sentence, "bold")
        _labelled(console, "result", f"{word.value}: {reason}" if reason else word.value)
        return
    if met := expecting.sentence(analysis):
        _print(console, met, "bold")
    found = spoken(analysis)
    for each in found[:ANSWERS]:
        _answer(console, each)
    if len(found) > ANSWERS:
        _print(console, f"… {len(found) - ANSWERS} more answers in the report", "dim")


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


def _next(console: Console, analysis: Analysis) -> None:
    """The one command, on a line of its own that a terminal may wrap and nobody cuts."""
    step = answers.next_step(analysis)
    if step is None:
        return
    if what := cost(step):
        _labelled(console, "next", f"{what}:")
    label = "" if what else "next"
    line = Text(f"{label:<{LABEL}}{step.command}")
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
    word = {Verdict.BLOCK: "block", Verdict.FLAG: "flag", Verdict.NOTE: "note"}[message.verdict]
    text = f"{', '.join(message.ids)}: {message.text}"
    _labelled(console, word, text, STYLES[message.verdict])


def _labelled(console: Console, label: str, text: str, style: str = "") -> None:
    labelled(console, label, text, style, LABEL - 1)


def _print(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style))
