"""What a report is made of, whatever format it is written in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Datum:
    """One field of a table: what is read, what it sorts by, what a page shows on hover."""

    text: str
    sort: float | str | None = None
    tip: str = ""
    tone: str = ""  # what it means for its look: name, mark, quiet, blocked, why, passed, lost …
    bar: float | None = None  # 0..1, drawn behind the text
    missing: bool = False  # a number that is not known, or not shown: last in any order

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
    """One row; `levels` are the values that a filter asks for, by the name of the factor."""

    data: list[Datum]
    levels: dict[str, str] = field(default_factory=dict)
    tone: str = ""  # best, tied, lost, slower, faster …


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table; `groups` are (title, number of columns) above the column heads."""

    name: str
    title: str
    columns: list[str]
    lines: list[Line]
    note: str = ""
    groups: list[tuple[str, int]] = field(default_factory=list)
    sortable: bool = False
