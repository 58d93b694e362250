"""A row of a published CSV: its fields by column, and errors that name its line."""

from __future__ import annotations

import csv
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import NoReturn, Self

from savemark import limits
from savemark.errors import usage
from savemark.tools._numbers import MOST_S, MOST_WHOLE


def names(line: str) -> tuple[str, ...]:
    """Return the names of columns in a header."""
    return tuple(name.strip().strip('"').lower() for name in line[: limits.LONGEST_TEXT].split(","))


def nanoseconds(seconds: Decimal) -> int:
    """Return a time as whole nanoseconds."""
    return int(seconds * 1_000_000_000)


class Row:
    """One row of the file."""

    def __init__(self, path: Path, number: int, values: dict[str, str]) -> None:
        self.path, self.number, self.values = path, number, values

    @classmethod
    def of(cls, path: Path, number: int, line: str, columns: tuple[str, ...]) -> Self:
        """Read a line; a usage error where it has another number of fields than the header."""
        values = [value.strip() for value in next(csv.reader([line]))]
        row = cls(path, number, dict(zip(columns, values, strict=False)))
        if len(values) != len(columns):
            row.fail(f"{len(values)} fields where the header has {len(columns)}")
        return row

    def fail(self, message: str) -> NoReturn:
        """Raise the error of this row."""
        raise usage(
            f"{self.path}:{self.number}: {message}",
            "the file is damaged there; mend or remove that line",
        )

    def whole(self, column: str) -> int:
        """Return a whole number."""
        text = self.values[column]
        if not text.isascii() or not text.isdigit() or len(text) > MOST_WHOLE:
            self.fail(f"{column}: `{text[:40]}` is not a whole number that can be")
        return int(text)

    def seconds(self, column: str) -> Decimal:
        """Return a time."""
        text = self.values[column]
        try:
            value = Decimal(text)
        except InvalidOperation:
            self.fail(f"{column}: `{text}` is not a number of seconds")
        if not value.is_finite() or not 0 <= value < MOST_S:
            self.fail(f"{column}: `{text}` is not a time")
        return value
