"""Tables, and lines with a label, on a terminal."""

from __future__ import annotations

from rich.console import Console, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from savemark.report.document import Table

UNLIMITED = 10_000
# What a line is, or what its label says.
STYLES = {
    "leader": "bold",
    "lost": "bold red",
    "slower": "red",
    "faster": "green",
    "passed": "green",
    "unshown": "yellow",
}


def grid(table: Table, fold: int | None = None) -> Grid:
    """A table for a terminal; names that are longer than `fold` go on in another line."""
    lines = Grid(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    first = table.lines[0].data if table.lines else []
    # The title of a group stands above the first of its columns.
    above = [word for title, count in table.groups for word in (title, *[""] * (count - 1))]
    for index, column in enumerate(table.columns):
        head = Text(f"{above[index]}\n{column}" if above else column)
        if fold and not index:
            lines.add_column(head, overflow="fold", max_width=fold)
        else:
            right = bool(first) and first[index].number
            lines.add_column(head, justify="right" if right else "left", no_wrap=True)
    for line in table.lines:
        lines.add_row(*(Text(datum.text) for datum in line.data), style=STYLES.get(line.tone, ""))
    return lines


def width(console: Console, part: RenderableType) -> int:
    """How wide it would be on a terminal without end."""
    endless = console.options.update(max_width=UNLIMITED)
    return console.measure(part, options=endless).maximum


def print_table(console: Console, table: Table) -> None:
    """Print a table as wide as it is."""
    lines = grid(table)
    # In a log or a narrow window a long line is better than one with its end cut off.
    before = console.width
    console.width = max(before, width(console, lines))
    console.print(lines)
    console.width = before


def labelled(console: Console, label: str, text: str, style: str = "", column: int = 10) -> None:
    """Print a label, and its text with a hanging indent."""
    lines = Grid.grid(padding=(0, 1))
    lines.add_column(width=column, no_wrap=True)
    lines.add_column(overflow="fold")
    lines.add_row(Text(label, style), Text(text))
    console.print(lines)
