"""A table as data: the page, the Markdown and the CSV are three renderings of it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from savemark import escape, files


@dataclass(frozen=True, slots=True)
class Datum:
    """One cell: what is read, what it sorts by, what is told on hover."""

    text: str
    sort: float | str | None = None
    tip: str = ""
    css: str = ""
    bar: float | None = None  # 0..1, drawn behind the text
    missing: bool = False  # a number that is not known, or not told: last in any order

    @property
    def number(self) -> bool:
        """Whether it belongs on the right."""
        return self.missing or isinstance(self.sort, int | float)


MISSING = Datum("–", missing=True)
BLANK = Datum("", missing=True)


def quantity(value: float | None, words: Callable[[float], str]) -> Datum:
    """A number in the words of a reader, or a dash."""
    return MISSING if value is None else Datum(words(value), value)


@dataclass(frozen=True, slots=True)
class Line:
    """One row, with the attributes that filters look at."""

    data: list[Datum]
    attributes: dict[str, str] = field(default_factory=dict)
    css: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table; `groups` are (title, number of columns) above the column heads."""

    name: str
    title: str
    columns: list[str]
    lines: list[Line]
    note: str = ""
    groups: list[tuple[str, int]] = field(default_factory=list)

    def markdown(self) -> str:
        """The same as a GitHub table."""
        heads = self.columns
        if self.groups:
            spread = [title for title, count in self.groups for _ in range(count)]
            heads = [f"{g} {c}".strip() for g, c in zip(spread, self.columns, strict=True)]
        first = self.lines[0].data if self.lines else []
        marks = ["--:" if d.number else "---" for d in first] or ["---"] * len(heads)
        rows = [heads, *([datum.text for datum in line.data] for line in self.lines)]
        head, *told = ([escape.cell(text) for text in row] for row in rows)
        body = [f"| {' | '.join(cells)} |" for cells in (head, marks, *told)]
        return "\n".join([*body, "", *([escape.markdown(self.note), ""] if self.note else [])])


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows of base units; the columns are those of the first row."""
    if not rows:
        return
    text, names = io.StringIO(newline=""), list(rows[0])
    writer = csv.writer(text)
    writer.writerow(map(escape.csv, names))
    writer.writerows([escape.csv(row.get(name, "")) for name in names] for row in rows)
    files.write_text(path, text.getvalue())
